// Layers to move or combine values: pixel shuffle, resizes, add, mul, concat, slice, crop, pad,
// affine, group norm and lone activations, on any tensors. They cost next to nothing compared to
// convolutions.
#pragma once

#include <memory>

#include "engine/backends/cpu/kernels/isa.h"
#include "engine/backends/cpu/kernels/kernel.h"
#include "engine/model/network.h"

namespace upscaled::cpu {

bool ElementwiseSupports(const Layer& layer);
std::unique_ptr<LayerKernel> MakeElementwise(const Layer& layer, Isa isa);

}  // namespace upscaled::cpu
