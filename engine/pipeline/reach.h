// The neighbourhood a network depends on: its halo, and the period of its kernels' block grid.
#pragma once

#include <algorithm>

#include "engine/backends/backend.h"
#include "engine/pipeline/cells.h"

namespace upscaled {

// Stands for all of the image.
inline constexpr int kWholeImageHaloPx = 1024;
static_assert(kWholeImageHaloPx >= kMaxWholeImagePx);

// Source pixels beyond each side of a rectangle.
struct Halo {
  int left_px = 0;
  int top_px = 0;
  int right_px = 0;
  int bottom_px = 0;

  int Largest() const { return std::max({left_px, top_px, right_px, bottom_px}); }
  int Mean() const { return (left_px + top_px + right_px + bottom_px) / 4; }
  friend bool operator==(const Halo&, const Halo&) = default;
};

struct Reach {
  int halo_px() const { return halo.Largest(); }

  // Source pixels around a tile for its runs, at any place of the tile; at most kWholeImageHaloPx
  // on each side.
  Halo halo;
  // Period of the kernels' block grid, in source pixels. Away from the image's sides, pixels this
  // far apart with equal inputs have equal outputs. 0: no such period is known.
  int repeat_px = 0;
};

// Whether each tile of an image of this size takes all of it, so that one tile is best: by the
// executable's kernels (Executable::ComputesWhole), or since the network may read any pixel.
bool TilesSeeAll(const Executable& executable, Size image);

// For images of this size.
Reach ReachOf(const Executable& executable, Size image);
// For images too large to be computed whole by any device.
Reach ReachOf(const Executable& executable);

// For images in cells.
Reach ReachOf(const CellLattice& cells);

// Returns the reach into an image with any turn or flip: the same on all sides.
Reach TurnedReach(const Reach& reach);

}  // namespace upscaled
