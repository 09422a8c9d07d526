#include "engine/backends/cuda/kernels/conv3x3_mma_kernel.h"
#include "engine/backends/cuda/kernels/conv_launches.h"
#include "engine/backends/cuda/kernels/launch.cuh"

namespace upscaled::cuda {
namespace {

// Sums of 64 columns take 128 registers: one block a multiprocessor.
template <int kColumns>
__global__ void __launch_bounds__(Conv3x3Mma::kThreads, kColumns == 64 ? 1 : 2)
    Conv3x3MmaKernel(const __grid_constant__ ConvParams params,
                     const __grid_constant__ BlockGrid grid) {
  RunConv3x3Mma<kColumns>(params, grid);
}

template <int kColumns>
cudaError_t Launch(const ConvParams& params, const DeviceLimits& device, cudaStream_t stream) {
  return LaunchPersistentConv(Conv3x3MmaKernel<kColumns>, Conv3x3Mma::kThreads,
                              Conv3x3Mma::SharedBytes(params.shape, kColumns),
                              MakeBlockGrid(params, Conv3x3Mma::kWidth, Conv3x3Mma::kHeight),
                              CeilDiv(params.shape.Columns(), kColumns), params, device, stream);
}

}  // namespace

cudaError_t LaunchConv3x3Mma(const ConvParams& params, int columns, const DeviceLimits& device,
                             cudaStream_t stream) {
  switch (columns) {
    case 64:
      return Launch<64>(params, device, stream);
    case 32:
      return Launch<32>(params, device, stream);
    case 16:
      return Launch<16>(params, device, stream);
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace upscaled::cuda
