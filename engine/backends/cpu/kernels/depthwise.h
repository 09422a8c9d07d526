// Depthwise convolutions in fp32: each channel from its own, any kernel size, stride and padding.
// And all other grouped ones, as dense ones with zeros for the other weights.
#pragma once

#include <memory>

#include "engine/backends/cpu/kernels/isa.h"
#include "engine/backends/cpu/kernels/kernel.h"
#include "engine/model/network.h"

namespace upscaled::cpu {

// Blocked tensors only.
bool DepthwiseSupports(const Layer& layer);
std::unique_ptr<LayerKernel> MakeDepthwise(const Layer& layer, Isa isa);

// By the direct kernel.
bool GroupedSupports(const Layer& layer);
std::unique_ptr<LayerKernel> MakeGrouped(const Layer& layer, Isa isa);

}  // namespace upscaled::cpu
