// The part of a frame that differs from the one before, which is all that a file needs of it.
// Private to engine/image.
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
  // The smallest rectangle around all pixels that differ; at least one pixel. All of the first
  // frame. Left and top are multiples of `step_px`.
  Rect Changed(int step_px) const;

  // Memory that it takes.
  static size_t Bytes(const ImageSpec& spec) { return 2 * ImageBytes(spec); }

 private:
  bool has_previous_ = false;
  int rows_ = 0;
  Image current_, previous_;
};

}  // namespace upscaled
