// A small image on which a network's arithmetic is that of a large one: along each axis it has the
// large one's borders and, between them, each phase of the kernels' blocks.
#pragma once

#include <algorithm>

#include "engine/base/geometry.h"
#include "engine/pipeline/reach.h"

namespace upscaled {

// One axis of both.
class SmallAxis {
 public:
  SmallAxis(int length, const Reach& reach)
      : length_(length), halo_(reach.halo_px), repeat_(reach.repeat_px), small_(length) {
    const int middle = length - 2 * halo_;
    if (middle > 2 * repeat_) small_ = 2 * halo_ + repeat_ + middle % repeat_;
  }

  int small() const { return small_; }
  // The place in the small image that is like `at` of the large one.
  int At(int at) const {
    if (small_ == length_ || at < halo_) return at;
    if (at >= length_ - halo_) return at - (length_ - small_);
    return halo_ + (at - halo_) % repeat_;
  }
  // From `at` on, so many places are adjacent in both.
  int Adjacent(int at) const {
    if (small_ == length_ || at >= length_ - halo_) return length_ - at;
    if (at < halo_) return halo_ - at;
    return std::min(length_ - at, small_ - At(at)) - halo_;
  }

 private:
  int length_, halo_, repeat_, small_;
};

struct SmallImage {
  SmallImage(Size image, const Reach& reach) : x(image.width, reach), y(image.height, reach) {}
  Size size() const { return {x.small(), y.small()}; }

  SmallAxis x, y;
};

}  // namespace upscaled
