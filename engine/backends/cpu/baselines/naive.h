// Convolution as its definition reads: what every other kernel's speed is a multiple of. Any kernel
// size, stride and padding.
#pragma once

#include <memory>

#include "engine/backends/cpu/kernels/isa.h"
#include "engine/backends/cpu/kernels/kernel.h"
#include "engine/model/network.h"

namespace upscaled::cpu {

bool NaiveSupports(const Layer& layer);
std::unique_ptr<LayerKernel> MakeNaive(const Layer& layer, Isa isa);

}  // namespace upscaled::cpu
