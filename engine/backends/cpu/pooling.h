// The two ends of a global pooling: what a tile adds to a layer's sums, and the means that come
// back.
#pragma once

#include "engine/backends/cpu/kernels/kernel.h"
#include "engine/graph/pooling.h"

namespace upscaled::cpu {

// Adds the pixels of `part` (coordinates of the layer).
void AddToSums(const Tensor& src, const Rect& part, ChannelSums& sums);

// Fills the one pixel of `dst`.
void LoadMeans(const ChannelMeans& means, const Tensor& dst);

}  // namespace upscaled::cpu
