// The bilateral filter's weights as kernels take them.
#pragma once

#include <vector>

#include "engine/image/bilateral.h"

namespace upscaled {

// Both Gaussians are one exp2: of the logarithm of the closeness, a constant of each place in the
// window, plus a factor times the squared colour distance.
struct BilateralWindow {
  // `full_scale`: the largest sample.
  BilateralWindow(const BilateralOptions& options, float full_scale);

  int radius_px;
  float range;               // log2 of the weight at a colour distance of 1
  std::vector<float> space;  // log2 of the weight of each place in the window, row by row
};

}  // namespace upscaled
