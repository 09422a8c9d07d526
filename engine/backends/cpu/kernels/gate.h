// A gate in one pass: (a + b) * (sigmoid(a) * factor + offset), with a factor and an offset for
// each channel, between blocked tensors of floats.
#pragma once

#include <memory>

#include "engine/backends/cpu/kernels/isa.h"
#include "engine/backends/cpu/kernels/kernel.h"
#include "engine/backends/cpu/kernels/kernel_list.h"
#include "engine/model/network.h"

namespace upscaled::cpu {

// Its sources are a and b. `affine`: the layer with the factors and offsets.
std::unique_ptr<LayerKernel> MakeGate(const Layer& affine, Isa isa);

// The name of such a kernel in profiles.
const KernelEntry& GateKernel();

}  // namespace upscaled::cpu
