// Convolution as a sum of matrix products, one for each tap of the kernel ("kn2row": Anderson,
// Vasudevan, Keane, Gregg, "Low-memory GEMM-based convolution algorithms for deep neural networks",
// 2017): what oneDNN's tuned product makes of it. Any kernel size, stride 1. In builds with oneDNN.
#pragma once

#include <memory>

#include "engine/backends/cpu/kernels/isa.h"
#include "engine/backends/cpu/kernels/kernel.h"
#include "engine/model/network.h"

namespace upscaled::cpu {

bool Kn2rowSupports(const Layer& layer);
std::unique_ptr<LayerKernel> MakeKn2row(const Layer& layer, Isa isa);

}  // namespace upscaled::cpu
