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
#include "engine/graph/tile_plan.h"
#include "engine/image/image.h"

namespace upscaled {

// Appends pixel (x, y) to the last of the runs, which are one row high each, or as a new one.
void AppendToRuns(int x, int y, std::vector<Rect>& runs);

// Appends the runs (one row high each) of pixels at `first`, `count` of them side by side with
// `channels` values each, that hold a non-finite value; (x, y) is the position of the first.
void AppendOverflowed(const float* first, int channels, int count, int x, int y,
                      std::vector<Rect>& runs);

// The most runs that an image of this size can have: every second pixel of each row.
inline size_t MaxOverflowedRuns(Size size) {
  return static_cast<size_t>(size.height) * CeilDiv(size.width, 2);
}

// The most memory for the runs of an image of this size while ReplaceOverflowed puts them into
// squares and those into parts, whose vectors may be twice as large as what they hold.
inline size_t MaxOverflowedBytes(Size size) { return 5 * MaxOverflowedRuns(size) * sizeof(Rect); }

// How to compute exact results of parts of a source, in their last pass.
struct ExactTiles {
  absl::FunctionRef<TilePlan(const Rect& tile)> plan;
  // Writes the result of the planned tile into RGB samples of the type that the whole one has.
  absl::FunctionRef<absl::Status(TilePlan plan, const MutableImageView& dst)> compute;
};

// Computes the pixels of `runs`, each one row high and in the coordinates of a result that is
// `scale` times its source: in the smallest tile that covers them, or in several small ones where
// these cost less. `dst` is the result of `tile`; none of its other pixels change.
absl::Status ReplaceOverflowed(std::span<const Rect> runs, int scale, const Rect& tile,
                               const MutableImageView& dst, const ExactTiles& exact);

}  // namespace upscaled
