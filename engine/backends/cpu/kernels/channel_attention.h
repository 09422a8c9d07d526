// Attention among channels, of the layer and of its parts, and the products for its means.
#pragma once

#include <memory>

#include "engine/backends/cpu/kernels/isa.h"
#include "engine/backends/cpu/kernels/kernel.h"
#include "engine/model/network.h"

namespace upscaled::cpu {

// Blocked tensors only.
bool ChannelProductsSupports(const Layer& layer);
std::unique_ptr<LayerKernel> MakeChannelProducts(const Layer& layer, Isa isa);

bool ChannelAttentionSupports(const Layer& layer);
std::unique_ptr<LayerKernel> MakeChannelAttention(const Layer& layer, Isa isa);

bool PartAttentionSupports(const Layer& layer);
std::unique_ptr<LayerKernel> MakePartAttention(const Layer& layer, Isa isa);

}  // namespace upscaled::cpu
