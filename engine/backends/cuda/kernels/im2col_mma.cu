#include "engine/backends/cuda/kernels/im2col_mma_kernel.h"

#include "engine/backends/cuda/kernels/conv_launches.h"
#include "engine/backends/cuda/kernels/launch.cuh"

namespace upscaled::cuda {
namespace {

template <int kColumns>
__global__ void __launch_bounds__(Im2colMma::kThreads, 2)
    Im2colMmaKernel(const __grid_constant__ ConvParams params,
                    const __grid_constant__ BlockGrid grid) {
  RunIm2colMma<kColumns>(params, grid);
}

template <int kColumns>
cudaError_t Launch(const ConvParams& params, cudaStream_t stream) {
  return LaunchConv(Im2colMmaKernel<kColumns>, Im2colMma::kThreads, Im2colSharedBytes<kColumns>(),
                    MakeBlockGrid(params, Im2colMma::kWidth, Im2colMma::kHeight),
                    CeilDiv(params.shape.Columns(), kColumns), params, stream);
}

}  // namespace

cudaError_t LaunchIm2colMma(const ConvParams& params, int columns, cudaStream_t stream) {
  switch (columns) {
    case 64:
      return Launch<64>(params, stream);
    case 16:
      return Launch<16>(params, stream);
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace upscaled::cuda
