// The two ends of a global pooling.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "engine/backends/cuda/kernels/activation.h"
#include "engine/backends/cuda/kernels/tensor_view.h"
#include "engine/model/precision.h"

namespace upscaled::cuda {

// Adds up a part of src.region, rounded as ChannelSums rounds: integers, so neither order nor
// grouping matters. cudaErrorInvalidValue for more than kMaxSummedPixels.
cudaError_t LaunchSumChannels(const TensorView& src, const PooledSums& sums, int tiles,
                              Precision precision, cudaStream_t stream);

// The one pixel of a pooled layer, activated, from means[tile][channel], channels rounded up to
// planes. `constants`: PackConstants of the kGlobalAveragePool.
cudaError_t LaunchLoadMeans(const float* means, const TensorView& dst, int tiles,
                            const ActivationParams& activation, const float* constants,
                            Precision precision, cudaStream_t stream);

}  // namespace upscaled::cuda
