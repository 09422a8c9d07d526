// The sums of global poolings over a blocked layer, a vector at a time.
#pragma once

#include "engine/backends/cpu/kernels/isa.h"

namespace upscaled::cpu {

// Add `pixels` (at most ChannelSums::kExactRun) pixels of one plane to `sums`, one for each of its
// channels, every value rounded by ChannelSums::Round.
struct PooledSums {
  void (*floats)(const float* src, int pixels, double* sums);
  void (*halves)(const float* src, int pixels, double* sums);
};

PooledSums PooledSumsFor(Isa isa);

}  // namespace upscaled::cpu
