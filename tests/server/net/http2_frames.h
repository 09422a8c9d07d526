// Frames of HTTP/2 as clients write them.
#pragma once

#include <cstdint>
#include <string>

#include "server/net/http2_guard.h"

namespace upscaled::server {

inline constexpr uint8_t kDataFrame = 0, kHeadersFrame = 1, kPriorityFrame = 2, kResetFrame = 3,
                         kSettingsFrame = 4, kPingFrame = 6, kWindowFrame = 8,
                         kContinuationFrame = 9;
inline constexpr uint8_t kEndStreamFlag = 1, kEndHeadersFlag = 4;

inline std::string Preface() { return std::string(Http2Guard::kPreface); }

inline std::string Frame(uint8_t type, uint8_t flags, size_t payload_bytes, uint32_t stream = 1) {
  std::string frame;
  for (const int shift : {16, 8, 0}) frame += static_cast<char>(payload_bytes >> shift & 0xff);
  frame += static_cast<char>(type);
  frame += static_cast<char>(flags);
  for (const int shift : {24, 16, 8, 0}) frame += static_cast<char>(stream >> shift & 0xff);
  return frame + std::string(payload_bytes, '\x1');
}

}  // namespace upscaled::server
