// The markers of a JPEG, each behind a byte 0xFF. Source: ITU-T T.81, annex B. Private to
// engine/image.
#pragma once

#include <cstdint>
#include <string_view>

namespace upscaled::jpeg {

inline constexpr uint8_t kPrefix = 0xFF;

enum Marker : uint8_t {
  kTem = 0x01,
  kSof0 = 0xC0,
  kSof1 = 0xC1,
  kSof2 = 0xC2,  // progressive
  kDht = 0xC4,
  kJpg = 0xC8,
  kSof9 = 0xC9,   // as kSof1, arithmetic coding
  kSof10 = 0xCA,  // as kSof2, arithmetic coding
  kDac = 0xCC,
  kSof15 = 0xCF,
  kRst0 = 0xD0,
  kRst7 = 0xD7,
  kSoi = 0xD8,
  kEoi = 0xD9,
  kSos = 0xDA,
  kDqt = 0xDB,
  kApp0 = 0xE0,
  kApp1 = 0xE1,
  kApp2 = 0xE2,
  kApp13 = 0xED,
  kApp14 = 0xEE,
  kApp15 = 0xEF,
};

// How the segments of blocks begin.
inline constexpr std::string_view kXmpBegin("http://ns.adobe.com/xap/1.0/\0", 29);
inline constexpr std::string_view kExtendedXmpBegin("http://ns.adobe.com/xmp/extension/\0", 35);
inline constexpr std::string_view kPhotoshopBegin("Photoshop 3.0\0", 14);

inline bool IsRestart(uint8_t marker) { return marker >= kRst0 && marker <= kRst7; }

}  // namespace upscaled::jpeg
