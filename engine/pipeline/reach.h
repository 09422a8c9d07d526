// How far, and with what period, an executable's arithmetic looks around itself.
#pragma once

#include "engine/backends/backend.h"

namespace upscaled {

// Stands for all of the image.
inline constexpr int kWholeImageHaloPx = 1024;
static_assert(kWholeImageHaloPx >= kMaxWholeImagePx);

struct Reach {
  // Source pixels around a tile that its runs depend on, wherever the tile lies; at most
  // kWholeImageHaloPx.
  int halo_px = 0;
  // Far from an image's sides, pixels so many source pixels apart lie alike in the blocks of all
  // kernels: what they see being equal, so are their bytes. 0: not known of any such distance.
  int repeat_px = 0;
};

// For images of this size.
Reach ReachOf(const Executable& executable, Size image);

}  // namespace upscaled
