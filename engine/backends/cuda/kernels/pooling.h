// The two ends of a global pooling.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "engine/backends/cuda/kernels/activation.h"
#include "engine/backends/cuda/kernels/tensor_view.h"
#include "engine/model/precision.h"

namespace upscaled::cuda {

// A value counts as at most 2^40 units, so that an int64 holds the sum of so many pixels.
inline constexpr int64_t kMaxSummedPixels = int64_t{1} << 22;

// Adds up `part` of src.region, in units of 2^-24 and rounded as ChannelSums rounds: integers, so
// that neither order nor grouping matters. Sets sums[tile][channel], channels rounded up to planes.
// cudaErrorInvalidValue for more than kMaxSummedPixels.
cudaError_t LaunchSumChannels(const TensorView& src, const Rect& part, int tiles,
                              Precision precision, int64_t* sums, cudaStream_t stream);

// The one pixel of a pooled layer, activated, from means[tile][channel], channels rounded up to
// planes. `constants`: PackConstants of the kGlobalAveragePool.
cudaError_t LaunchLoadMeans(const float* means, const TensorView& dst, int tiles,
                            const ActivationParams& activation, const float* constants,
                            Precision precision, cudaStream_t stream);

}  // namespace upscaled::cuda
