// EXIF with resolutions of the two sides, for tests.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "engine/image/endian.h"

namespace upscaled::test {

// Fractions of the picture (tags 282 and 283) and of the camera's sensor (41486 and 41487).
struct ExifResolutions {
  std::array<uint32_t, 2> x = {300, 1}, y = {150, 1}, sensor_x = {7000, 3}, sensor_y = {2000, 1};
  friend bool operator==(const ExifResolutions&, const ExifResolutions&) = default;
};

// A block of two directories with these values, and the orientation unless it is 0.
inline std::string ResolutionExif(const ExifResolutions& values, int orientation = 0,
                                  bool big_endian = false) {
  std::string bytes = big_endian ? "MM" : "II";
  const auto append = [&](uint32_t value, int count) {
    for (int i = 0; i < count; ++i)
      bytes.push_back(static_cast<char>(value >> 8 * (big_endian ? count - 1 - i : i)));
  };
  const auto entry = [&](uint32_t tag, uint32_t type, uint32_t value) {
    append(tag, 2), append(type, 2), append(1, 4), append(value, type == 3 ? 2 : 4);
    if (type == 3) append(0, 2);
  };
  const uint32_t first_entries = orientation > 0 ? 5 : 4;
  const uint32_t details = 8 + 2 + first_entries * 12 + 4, fractions = details + 2 + 3 * 12 + 4;
  append(42, 2), append(8, 4), append(first_entries, 2);
  if (orientation > 0) entry(274, 3, static_cast<uint32_t>(orientation));
  entry(282, 5, fractions), entry(283, 5, fractions + 8), entry(296, 3, 2);
  entry(34665, 4, details), append(0, 4);
  append(3, 2);
  entry(41486, 5, fractions + 16), entry(41487, 5, fractions + 24), entry(41488, 3, 3);
  append(0, 4);
  for (const auto& fraction : {values.x, values.y, values.sensor_x, values.sensor_y})
    append(fraction[0], 4), append(fraction[1], 4);
  return bytes;
}

// The values of any block with directories of these tags.
inline ExifResolutions ResolutionsIn(const std::string& exif) {
  const auto* const bytes = reinterpret_cast<const uint8_t*>(exif.data());
  const bool big = exif.starts_with("MM");
  const auto load16 = [&](size_t at) { return big ? LoadBe16(bytes + at) : LoadLe16(bytes + at); };
  const auto load32 = [&](size_t at) { return big ? LoadBe32(bytes + at) : LoadLe32(bytes + at); };
  ExifResolutions found = {{}, {}, {}, {}};
  const auto read = [&](size_t directory, const auto& again) -> void {
    for (size_t i = 0; i < load16(directory); ++i) {
      const size_t entry = directory + 2 + 12 * i, value = load32(entry + 8);
      const uint32_t tag = load16(entry);
      if (tag == 34665) again(value, again);
      auto* const to = tag == 282     ? &found.x
                       : tag == 283   ? &found.y
                       : tag == 41486 ? &found.sensor_x
                       : tag == 41487 ? &found.sensor_y
                                      : nullptr;
      if (to != nullptr) *to = {load32(value), load32(value + 4)};
    }
  };
  if (!exif.empty()) read(load32(4), read);
  return found;
}

// The resolutions of a picture that was turned by 90 degrees.
inline ExifResolutions Turned(const ExifResolutions& values) {
  return {values.y, values.x, values.sensor_y, values.sensor_x};
}

}  // namespace upscaled::test
