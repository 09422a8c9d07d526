// Products of two blocked tensors of halves, or of one and a factor of each channel (squeeze and
// excite).
#pragma once

#include <memory>

#include "engine/backends/cpu/kernels/isa.h"
#include "engine/backends/cpu/kernels/kernel.h"
#include "engine/model/network.h"

namespace upscaled::cpu {

bool MultiplyHalfSupports(const Layer& layer);

// Factors are one pixel of floats.
std::unique_ptr<LayerKernel> MakeMultiplyHalf(const Layer& layer, Isa isa);

}  // namespace upscaled::cpu
