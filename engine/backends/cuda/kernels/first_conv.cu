#include "engine/backends/cuda/kernels/first_conv.h"

#include "engine/backends/cuda/kernels/first_conv_kernel.h"
#include "engine/backends/cuda/kernels/launch.cuh"
#include "engine/base/int_math.h"

namespace upscaled::cuda {
namespace {

template <typename Storage>
__global__ void __launch_bounds__(FirstConv::kThreads, 2)
    FirstConvKernel(const __grid_constant__ FirstConvParams params) {
  RunFirstConv<Storage>(params);
}

template <typename Storage>
cudaError_t Launch(const FirstConvParams& params, cudaStream_t stream) {
  const Rect& region = params.dst.region;
  const dim3 blocks(CeilDiv(region.width, FirstConv::kWidth),
                    CeilDiv(region.height, FirstConv::kHeight), params.tiles);
  FirstConvKernel<Storage>
      <<<blocks, FirstConv::kThreads, FirstConv::SharedBytes(PlaneCount(params.dst.channels)),
         stream>>>(params);
  return cudaGetLastError();
}

}  // namespace

cudaError_t LaunchFirstConv(const FirstConvParams& params, Precision precision,
                            cudaStream_t stream) {
  if (PlaneCount(params.dst.channels) > FirstConv::kMaxPlanes) return cudaErrorInvalidValue;
  if (params.dst.region.empty()) return cudaSuccess;
  return precision == Precision::kFast ? Launch<Half>(params, stream)
                                       : Launch<float>(params, stream);
}

}  // namespace upscaled::cuda
