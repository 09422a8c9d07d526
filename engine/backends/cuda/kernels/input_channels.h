// Which channel of the input each packed weight multiplies.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "engine/backends/cuda/kernels/fused_conv.h"

namespace upscaled::cuda {

// A kernel's packing of a layer.
using Pack = std::function<PackedConv(const FusedConv& layers)>;

// One for each weight, in the packing's order; any channel for zeros that only fill up. The layer
// has at most kMaxGatedChannels.
inline constexpr int kMaxGatedChannels = 2047;
std::vector<uint16_t> InputChannels(const FusedConv& layers, const Pack& pack);

}  // namespace upscaled::cuda
