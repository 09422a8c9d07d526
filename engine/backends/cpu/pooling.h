// The two ends of a global pooling: what a tile adds to a layer's sums, and the means that come
// back.
#pragma once

#include "engine/backends/cpu/kernels/kernel.h"
#include "engine/backends/cpu/kernels/pooled_sums.h"
#include "engine/graph/pooling.h"

namespace upscaled::cpu {

// Adds the pixels of `part` (coordinates of the layer); `sum_pixels`: of any instruction set.
void AddToSums(SumPixelsFunction sum_pixels, const Tensor& src, const Rect& part,
               ChannelSums& sums);

// Fills the one pixel of `dst`.
void LoadMeans(const ChannelMeans& means, const Tensor& dst);

}  // namespace upscaled::cpu
