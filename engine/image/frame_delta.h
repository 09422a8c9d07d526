// The changed part of a frame: a file needs no more of it. Private to engine/image.
#pragma once

#include <cstddef>

#include "engine/base/geometry.h"
#include "engine/image/image.h"

namespace upscaled {

class FrameDelta {
 public:
  explicit FrameDelta(const ImageSpec& spec) : current_(spec), previous_(spec) {}

  // The frame is over: the next one takes its place, and is compared with it.
  void Advance();
  void AddRows(ImageView rows);
  int rows_added() const { return rows_; }

  ImageView frame() const { return current_.view(); }
  // The smallest rectangle around all changed pixels; at least one pixel. All of the first frame.
  // Left and top are multiples of `step_px`.
  Rect Changed(int step_px) const;

  // Its memory.
  static size_t Bytes(const ImageSpec& spec) { return 2 * ImageBytes(spec); }

 private:
  bool has_previous_ = false;
  int rows_ = 0;
  Image current_, previous_;
};

}  // namespace upscaled
