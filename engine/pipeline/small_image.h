// A small image with the network's arithmetic of a large one: along each axis it has the large
// one's borders and, between them, each phase of the kernels' blocks.
#pragma once

#include <algorithm>

#include "engine/base/geometry.h"
#include "engine/pipeline/reach.h"

namespace upscaled {

// One axis of both.
class SmallAxis {
 public:
  // `before_px`, `behind_px`: the halo on the axis; `repeat_px`: Reach's.
  SmallAxis(int length, int before_px, int behind_px, int repeat_px)
      : length_(length),
        before_(before_px),
        behind_(behind_px),
        repeat_(repeat_px),
        small_(length) {
    const int middle = length - before_ - behind_;
    if (middle > 2 * repeat_) small_ = before_ + behind_ + repeat_ + middle % repeat_;
  }

  int small() const { return small_; }
  // The place in the small image for `at` of the large one.
  int At(int at) const {
    if (small_ == length_ || at < before_) return at;
    if (at >= length_ - behind_) return at - (length_ - small_);
    return before_ + (at - before_) % repeat_;
  }
  // From `at` on, this many places are adjacent in both.
  int Adjacent(int at) const {
    if (small_ == length_ || at >= length_ - behind_) return length_ - at;
    if (at < before_) return before_ - at;
    return std::min(length_ - at, small_ - At(at)) - behind_;
  }

 private:
  int length_, before_, behind_, repeat_, small_;
};

struct SmallImage {
  SmallImage(Size image, const Reach& reach)
      : x(image.width, reach.halo.left_px, reach.halo.right_px, reach.repeat_px),
        y(image.height, reach.halo.top_px, reach.halo.bottom_px, reach.repeat_px) {}
  Size size() const { return {x.small(), y.small()}; }

  SmallAxis x, y;
};

}  // namespace upscaled
