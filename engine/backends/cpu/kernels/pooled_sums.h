// What global poolings add up of a blocked layer, a vector at a time.
#pragma once

#include "engine/backends/cpu/kernels/isa.h"

namespace upscaled::cpu {

// Adds `pixels` (at most ChannelSums::kExactRun) pixels of one plane to `sums`, one for each of its
// channels, every value rounded by ChannelSums::Round.
using SumPixelsFunction = void (*)(const float* src, int pixels, double* sums);

SumPixelsFunction SumPixelsFor(Isa isa);

}  // namespace upscaled::cpu
