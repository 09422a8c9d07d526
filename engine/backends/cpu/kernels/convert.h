// Between blocked tensors of floats and of halves, for layers with a kernel of the other kind.
#pragma once

#include <memory>

#include "engine/backends/cpu/kernels/isa.h"
#include "engine/backends/cpu/kernels/kernel.h"
#include "engine/backends/cpu/workspace.h"
#include "engine/model/network.h"

namespace upscaled::cpu {

// A layer of one input of as many channels; its activation is not applied.
std::unique_ptr<LayerKernel> MakeToHalf(const Layer& layer, Isa isa);
std::unique_ptr<LayerKernel> MakeToFloat(const Layer& layer, Isa isa);

// Packed weights as halves; a multiple of 32.
HugeBuffer ToHalves(const HugeBuffer& floats, Isa isa);

}  // namespace upscaled::cpu
