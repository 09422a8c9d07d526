// A GIF file up to its first image, or with all of its frames. Private to engine/image.
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
#include "engine/image/frame_canvas.h"
#include "engine/image/left_out.h"

namespace upscaled {

struct GifFrame {
  Rect rect;  // may reach beyond the canvas, but for the first one
  std::optional<uint8_t> transparent_index;
  FrameDelay delay;
  Disposal disposal = Disposal::kKeep;
  size_t begin = 0, end = 0;  // of its descriptor, table and data in the file
};

struct GifLayout {
  Size canvas;  // the logical screen, enlarged to hold the first frame, as browsers do
  // The first one, without its end; or all of the file's where limits.frame asks for another one.
  std::vector<GifFrame> frames;
  uint32_t plays = 1;  // as of Animation
  std::vector<std::string> comments;
  std::string icc_profile, xmp;
  LeftOut others;  // extensions
  bool has_plain_text = false;
  bool lacks_end = false;   // the file breaks off behind its frames
  size_t screen_bytes = 0;  // before the first block: signature, screen, table
  size_t seen_bytes = 0;

  // Whether any frame leaves a part of the canvas transparent.
  bool has_alpha() const;
};

// nullopt: more bytes are needed. Errors as ParseImageHeader. `is_whole`: no more bytes follow, or
// the prefix was enough before.
absl::StatusOr<std::optional<GifLayout>> ParseGifLayout(std::span<const uint8_t> prefix,
                                                        const DecodeLimits& limits, bool is_whole);

}  // namespace upscaled
