// Source: CIPA DC-008 (Exif 2.32), section 4.5-4.6; TIFF 6.0, section 2.
#include "engine/image/exif.h"

#include <algorithm>
#include <string_view>

#include "engine/image/endian.h"

namespace upscaled {
namespace {

constexpr std::string_view kExifBegin("Exif\0\0", 6);
constexpr size_t kTiffHeaderBytes = 8;
constexpr size_t kEntryBytes = 12;
constexpr uint32_t kOrientationTag = 0x0112;
constexpr uint32_t kShortType = 3;

}  // namespace

std::optional<Orientation> ExifOrientation(std::span<const uint8_t> segment) {
  if (segment.size() < kExifBegin.size() + kTiffHeaderBytes ||
      !std::equal(kExifBegin.begin(), kExifBegin.end(), segment.begin()))
    return std::nullopt;
  const std::span<const uint8_t> tiff = segment.subspan(kExifBegin.size());
  const bool big_endian = tiff[0] == 'M' && tiff[1] == 'M';
  if (!big_endian && !(tiff[0] == 'I' && tiff[1] == 'I')) return std::nullopt;
  const auto load16 = big_endian ? LoadBe16 : LoadLe16;
  const auto load32 = big_endian ? LoadBe32 : LoadLe32;

  const size_t directory = load32(&tiff[4]);
  if (load16(&tiff[2]) != 42 || directory > tiff.size() - 2) return std::nullopt;
  const size_t entries =
      std::min<size_t>(load16(&tiff[directory]), (tiff.size() - directory - 2) / kEntryBytes);
  for (size_t i = 0; i < entries; ++i) {
    const uint8_t* entry = &tiff[directory + 2 + i * kEntryBytes];
    if (load16(entry) != kOrientationTag) continue;
    const uint32_t value = load16(entry + 8);
    if (load16(entry + 2) != kShortType || value < 1 || value > 8) return std::nullopt;
    return static_cast<Orientation>(value);
  }
  return std::nullopt;
}

}  // namespace upscaled
