// The two ends of a global pooling: a tile's share of a layer's sums, and the returned means.
#pragma once

#include <vector>

#include "engine/backends/cpu/kernels/kernel.h"
#include "engine/backends/cpu/kernels/pooled_sums.h"
#include "engine/graph/pooling.h"

namespace upscaled::cpu {

// Adds the pixels of `part` (coordinates of the layer); `pooled_sums`: of any instruction set.
void AddToSums(const PooledSums& pooled_sums, const Tensor& src, const Rect& part,
               ChannelSums& sums);

// Appends the runs (one row high each) of pixels of `part` with a value that is not finite.
void FindNonFinite(const Tensor& src, const Rect& part, std::vector<Rect>& runs);

// Fills the one pixel of `dst`.
void LoadMeans(const ChannelMeans& means, const Tensor& dst);

}  // namespace upscaled::cpu
