// A GIF file up to its first image. Private to engine/image.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/geometry.h"
#include "engine/image/codec.h"

namespace upscaled {

struct GifLayout {
  Size canvas;  // the logical screen, enlarged to hold the first frame, as browsers do
  Rect frame;   // the first one, on the canvas
  std::optional<uint8_t> transparent_index;
  std::vector<std::string> comments;
  std::string icc_profile, xmp;
  bool has_plain_text = false;
  size_t pixels_begin = 0;

  bool has_alpha() const {
    return transparent_index.has_value() || frame != Rect{0, 0, canvas.width, canvas.height};
  }
};

// nullopt: more bytes are needed. Errors as ParseImageHeader.
absl::StatusOr<std::optional<GifLayout>> ParseGifLayout(std::span<const uint8_t> prefix,
                                                        const DecodeLimits& limits);

}  // namespace upscaled
