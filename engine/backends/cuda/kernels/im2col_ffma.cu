#include "engine/backends/cuda/kernels/im2col_ffma_kernel.h"

#include "engine/backends/cuda/kernels/conv_launches.h"
#include "engine/backends/cuda/kernels/launch.cuh"

namespace upscaled::cuda {
namespace {

template <typename Storage, int kColumns>
__global__ void __launch_bounds__(Im2colFfma<kColumns>::kThreads, 2)
    Im2colFfmaKernel(const __grid_constant__ ConvParams params,
                     const __grid_constant__ BlockGrid grid) {
  RunIm2colFfma<Storage, kColumns>(params, grid);
}

template <typename Storage, int kColumns>
cudaError_t Launch(const ConvParams& params, cudaStream_t stream) {
  using Tile = Im2colFfma<kColumns>;
  return LaunchConv(Im2colFfmaKernel<Storage, kColumns>, Tile::kThreads, Tile::kSharedBytes,
                    MakeBlockGrid(params, Tile::kWidth, Tile::kHeight),
                    CeilDiv(params.shape.Columns(), kColumns), params, stream);
}

template <typename Storage>
cudaError_t Launch(const ConvParams& params, int columns, cudaStream_t stream) {
  switch (columns) {
    case 64:
      return Launch<Storage, 64>(params, stream);
    case 16:
      return Launch<Storage, 16>(params, stream);
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace

cudaError_t LaunchIm2colFfma(const ConvParams& params, int columns, Precision precision,
                             cudaStream_t stream) {
  return precision == Precision::kFast ? Launch<Half>(params, columns, stream)
                                       : Launch<float>(params, columns, stream);
}

}  // namespace upscaled::cuda
