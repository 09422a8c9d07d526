// A JPEG XL file up to its image header. Private to engine/image.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "absl/status/statusor.h"
#include "engine/base/geometry.h"
#include "engine/image/codec.h"

namespace upscaled {

struct JxlLayout {
  Size size;                                         // upright
  Orientation orientation = Orientation::kIdentity;  // of what is stored
  int bits = 8;
  bool is_float = false, is_gray = false, has_alpha = false, is_animation = false;
  int extra_channels = 0;  // alpha among them
  uint32_t transfer = 13;  // of the colours, as CICP numbers them; 13: sRGB, 0: a gamma
  size_t header_end = 0;   // of the bytes that the layout was read from
};

// nullopt: more bytes are needed. Errors as ParseImageHeader.
absl::StatusOr<std::optional<JxlLayout>> ParseJxlLayout(std::span<const uint8_t> prefix,
                                                        const DecodeLimits& limits);

}  // namespace upscaled
