// Compiled only for sm_90a.
#include "engine/backends/cuda/kernels/conv3x3_wgmma_kernel.h"
#include "engine/backends/cuda/kernels/conv_launches.h"
#include "engine/backends/cuda/kernels/launch.cuh"

namespace upscaled::cuda {
namespace {

__global__ void __launch_bounds__(Conv3x3Wgmma::kThreads, 1)
    Conv3x3WgmmaKernel(const __grid_constant__ ConvParams params,
                       const __grid_constant__ BlockGrid grid) {
  RunConv3x3Wgmma(params, grid);
}

}  // namespace

cudaError_t LaunchConv3x3Wgmma(const ConvParams& params, const DeviceLimits& device,
                               cudaStream_t stream) {
  return LaunchPersistentConv(
      Conv3x3WgmmaKernel, Conv3x3Wgmma::kThreads, Conv3x3Wgmma::SharedBytes(params.shape),
      MakeBlockGrid(params, Conv3x3Wgmma::kWidth, Conv3x3Wgmma::kHeight),
      CeilDiv(params.shape.Columns(), Conv3x3Wgmma::kColumns), params, device, stream);
}

}  // namespace upscaled::cuda
