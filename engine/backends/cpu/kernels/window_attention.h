// Attention in windows.
#pragma once

#include <memory>

#include "engine/backends/cpu/kernels/isa.h"
#include "engine/backends/cpu/kernels/kernel.h"
#include "engine/model/network.h"

namespace upscaled::cpu {

bool WindowAttentionSupports(const Layer& layer);
std::unique_ptr<LayerKernel> MakeWindowAttention(const Layer& layer, Isa isa);

}  // namespace upscaled::cpu
