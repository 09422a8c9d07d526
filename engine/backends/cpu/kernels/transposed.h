// Transposed convolution of any kernel size and stride.
#pragma once

#include <memory>

#include "engine/backends/cpu/kernels/isa.h"
#include "engine/backends/cpu/kernels/kernel.h"
#include "engine/model/network.h"

namespace upscaled::cpu {

bool TransposedSupports(const Layer& layer);
std::unique_ptr<LayerKernel> MakeTransposed(const Layer& layer, Isa isa);

// As DirectFp16Supports.
bool TransposedFp16Supports(const Layer& layer);
std::unique_ptr<LayerKernel> MakeTransposedFp16(const Layer& layer, Isa isa);

}  // namespace upscaled::cpu
