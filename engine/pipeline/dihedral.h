// The eight flips and rotations of an image.
#pragma once

#include <cstddef>
#include <utility>

#include "engine/base/geometry.h"
#include "engine/image/image.h"

namespace upscaled {

// Flips the image, then swaps its axes: index bit 0 flips x, bit 1 flips y, bit 2 transposes.
class Dihedral {
 public:
  static constexpr int kCount = 8;

  explicit constexpr Dihedral(int index)
      : flip_x_(index & 1), flip_y_(index & 2), transpose_(index & 4) {}

  Size Apply(Size size) const { return transpose_ ? Size{size.height, size.width} : size; }
  // Where `r` of an image lies in the transformed image, and back; `image` is untransformed.
  Rect Apply(const Rect& r, Size image) const {
    const Rect flipped = Flip(r, image);
    return transpose_ ? Transpose(flipped) : flipped;
  }
  Rect Undo(const Rect& r, Size image) const { return Flip(transpose_ ? Transpose(r) : r, image); }

  // How to walk an image in memory in the order of the transformed one: its pixel (u, v) lies
  // `origin + u * step_u + v * step_v` after the first pixel.
  struct Walk {
    ptrdiff_t origin, step_u, step_v;
  };
  Walk WalkOver(Size image, ptrdiff_t pixel_step, ptrdiff_t row_step) const {
    Walk walk{0, pixel_step, row_step};
    if (flip_x_) walk.origin += (image.width - 1) * pixel_step, walk.step_u = -pixel_step;
    if (flip_y_) walk.origin += (image.height - 1) * row_step, walk.step_v = -row_step;
    if (transpose_) std::swap(walk.step_u, walk.step_v);
    return walk;
  }

 private:
  static Rect Transpose(const Rect& r) { return {r.y, r.x, r.height, r.width}; }
  Rect Flip(const Rect& r, Size image) const {
    return {flip_x_ ? image.width - r.right() : r.x, flip_y_ ? image.height - r.bottom() : r.y,
            r.width, r.height};
  }

  bool flip_x_, flip_y_, transpose_;
};

}  // namespace upscaled
