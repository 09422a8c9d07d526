// The bilateral filter (engine/image/bilateral.h) over RGB of 8 bits.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "engine/base/geometry.h"

namespace upscaled::cuda {

enum class BilateralStep { kNaive, kShared, kSeveral };

// Pointers are the device's; `radius`, `range` and `space` those of BilateralWindow.
struct BilateralParams {
  const uint8_t* src;
  Size size;
  int radius;
  float range;
  const float* space;
  uint8_t* dst;
};

cudaError_t LaunchBilateral(BilateralStep step, const BilateralParams& params, cudaStream_t stream);

}  // namespace upscaled::cuda
