// Pixels that left the range of 16-bit arithmetic, computed once more in fp32. They are the same
// for every tiling of an image, and so are their new values.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "engine/base/geometry.h"
#include "engine/base/int_math.h"
#include "engine/image/image.h"

namespace upscaled {

// Appends the runs (one row high each) of pixels at `first`, `count` of them side by side with
// `channels` values each, that hold a non-finite value; (x, y) is the position of the first.
void AppendOverflowed(const float* first, int channels, int count, int x, int y,
                      std::vector<Rect>& runs);

// The most runs that an image of this size can have: every second pixel of each row.
inline size_t MaxOverflowedRuns(Size size) {
  return static_cast<size_t>(size.height) * CeilDiv(size.width, 2);
}

// Computes the pixels of `runs`, in the result's coordinates, of a result that is `scale` times its
// source. `compute` writes the exact result of a source tile into RGB samples of dst's type. It is
// called for the smallest one that covers them, or for several small ones where that is less work.
// `dst` is the result of `tile`; none of its other pixels change.
absl::Status ReplaceOverflowed(
    std::span<const Rect> runs, int scale, const Rect& tile, const MutableImageView& dst,
    absl::FunctionRef<absl::Status(const Rect& tile, const MutableImageView& dst)> compute);

}  // namespace upscaled
