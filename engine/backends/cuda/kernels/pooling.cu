#include "engine/backends/cuda/kernels/pooling.h"

#include <algorithm>

#include "engine/backends/cuda/kernels/launch.cuh"
#include "engine/backends/cuda/kernels/pooling_kernel.h"
#include "engine/base/int_math.h"

namespace upscaled::cuda {
namespace {

template <typename Storage>
__global__ void __launch_bounds__(SumChannels::kThreads)
    SumChannelsKernel(const __grid_constant__ SumChannelsParams params) {
  RunSumChannels<Storage>(params);
}

template <typename Storage>
__global__ void __launch_bounds__(Elementwise::kThreads)
    LoadMeansKernel(const __grid_constant__ LoadMeansParams params) {
  RunLoadMeans<Storage>(params);
}

}  // namespace

cudaError_t LaunchSumChannels(const TensorView& src, const PooledSums& sums, int tiles,
                              Precision precision, cudaStream_t stream) {
  const int64_t area = sums.part.Area();
  if (area > kMaxSummedPixels) return cudaErrorInvalidValue;
  if (sums.part.empty()) return cudaSuccess;
  const int planes = PlaneCount(src.channels);
  const int blocks =
      std::min(SumChannels::kMaxBlocks, CeilDiv(static_cast<int>(area), SumChannels::kThreads));
  const auto kernel =
      precision == Precision::kFast ? SumChannelsKernel<Half> : SumChannelsKernel<float>;
  kernel<<<dim3(blocks, planes, tiles), SumChannels::kThreads, SumChannels::kSharedBytes, stream>>>(
      {src, sums});
  return cudaGetLastError();
}

cudaError_t LaunchLoadMeans(const float* means, const TensorView& dst, int tiles,
                            const ActivationParams& activation, const float* constants,
                            Precision precision, cudaStream_t stream) {
  return LaunchPixels(
      precision == Precision::kFast ? LoadMeansKernel<Half> : LoadMeansKernel<float>, {0, 0, 1, 1},
      PlaneCount(dst.channels), tiles, LoadMeansParams{means, dst, activation, constants}, stream);
}

}  // namespace upscaled::cuda
