// Where the pixels of a mini-batch lie in the row of a channel: image after image, line after line,
// each line followed by a column of zeros and each image by a line of zeros, which neighbours
// share. So a pixel's neighbour at (dy, dx) is dy * pitch + dx values further on whatever the
// image, and the edges of images need no branch.
#pragma once

#include <cstddef>

#include "engine/base/geometry.h"

namespace upscaled::train {

struct Grid {
  // Neighbours may be so many pixels away, on the right and below: what a 3x3 kernel without
  // padding reads for a place behind the last pixel.
  static constexpr int kReachPx = 2;

  int images = 0;
  Size size;  // of each

  size_t pitch() const { return static_cast<size_t>(size.width) + 1; }
  // Of all images, those of zeros between them included.
  int lines() const { return images * (size.height + 1); }
  // The line of an image's row `y`.
  int Line(int image, int y) const { return image * (size.height + 1) + y; }
  bool IsZeroLine(int line) const { return line % (size.height + 1) == size.height; }
  // The first value of a line; before that of line 0 lie a line and a column of zeros.
  size_t Offset(int line) const { return (static_cast<size_t>(line) + 1) * pitch() + 1; }

  // Values of a row, its tail of zeros included: whole cache lines, and an odd number of them, so
  // that the rows of a column do not share a set of the cache.
  size_t row_values() const {
    constexpr size_t kLine = 16;
    const size_t used = Offset(lines()) + kReachPx * (pitch() + 1);
    return ((used + kLine - 1) / kLine | 1) * kLine;
  }

  friend bool operator==(const Grid&, const Grid&) = default;
};

}  // namespace upscaled::train
