// Lays out the pixels of a mini-batch: image after image, line after line. A column of zeros
// follows each line, and a line of zeros follows each image. Neighbours share them. The
// neighbour at (dy, dx) is therefore dy * pitch + dx pixels further on, in any image. Convolutions
// with a border of zeros need no copy.
#pragma once

#include <cstddef>

#include "engine/base/geometry.h"

namespace upscaled::train {

struct Grid {
  // Readable lines behind the last; they are zero.
  static constexpr int kReachLines = 8;

  int images = 0;
  Size size;  // of each

  size_t pitch() const { return static_cast<size_t>(size.width) + 1; }
  // The lines of all images, including the lines of zeros between them.
  int lines() const { return images * (size.height + 1); }
  // The line of an image's row `y`.
  int Line(int image, int y) const { return image * (size.height + 1) + y; }
  // The first pixel of a line; before line 0 lie a line and a column of zeros.
  size_t Offset(int line) const { return (static_cast<size_t>(line) + 1) * pitch() + 1; }
  size_t places() const { return Offset(lines() + kReachLines); }

  friend bool operator==(const Grid&, const Grid&) = default;
};

}  // namespace upscaled::train
