#include "engine/backends/cuda/kernels/columns_mma_kernel.h"

#include "engine/backends/cuda/kernels/conv_launches.h"
#include "engine/backends/cuda/kernels/launch.cuh"

namespace upscaled::cuda {
namespace {

template <int kColumns>
__global__ void __launch_bounds__(ColumnsMma::kThreads)
    ColumnsMmaKernel(const __grid_constant__ ConvParams params,
                     const __grid_constant__ BlockGrid grid) {
  RunColumnsMma<kColumns>(params, grid);
}

template <int kColumns>
cudaError_t Launch(const ConvParams& params, cudaStream_t stream) {
  return LaunchConv(ColumnsMmaKernel<kColumns>, ColumnsMma::kThreads,
                    ColumnsMma::SharedBytes(kColumns),
                    MakeBlockGrid(params, ColumnsMma::Groups(params.shape, ColumnsMma::kWidth),
                                  ColumnsMma::Groups(params.shape, ColumnsMma::kHeight)),
                    1, params, stream);
}

}  // namespace

cudaError_t LaunchColumnsMma(const ConvParams& params, int columns, cudaStream_t stream) {
  switch (columns) {
    case 48:
      return Launch<48>(params, stream);
    case 32:
      return Launch<32>(params, stream);
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace upscaled::cuda
