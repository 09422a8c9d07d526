// The headers of a BMP file. Private to engine/image.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "absl/status/statusor.h"
#include "engine/image/image.h"
#include "engine/image/metadata.h"

namespace upscaled {

enum class BmpCoding : uint8_t { kPlain, kRle4, kRle8 };

struct BmpLayout {
  Size size;
  bool top_down = false;
  int bits_per_pixel = 0;  // 1, 2, 4, 8: indices; 16, 24, 32: by `masks`
  BmpCoding coding = BmpCoding::kPlain;
  std::array<uint32_t, 4> masks = {};  // of red, green, blue, alpha (0: none)
  size_t palette_offset = 0, palette_entries = 0, palette_entry_bytes = 0;
  size_t pixels_offset = 0;
  uint64_t profile_offset = 0, profile_bytes = 0;  // 0: none is embedded
  bool has_other_profile = false;                  // calibrated values, or the name of a file
  uint64_t profile_end = 0;                        // in the file, of either; 0: there is none
  std::optional<PixelDensity> density;

  bool has_alpha() const { return masks[3] != 0; }
  uint32_t named_bits() const { return masks[0] | masks[1] | masks[2] | masks[3]; }
  size_t stored_row_bytes() const {
    return (static_cast<size_t>(size.width) * bits_per_pixel + 31) / 32 * 4;
  }
};

// nullopt: more bytes are needed. Errors as ParseImageHeader.
absl::StatusOr<std::optional<BmpLayout>> ParseBmpLayout(std::span<const uint8_t> prefix);

}  // namespace upscaled
