#include "engine/backends/cuda/kernels/elementwise.h"

#include "engine/backends/cuda/kernels/elementwise_kernel.h"
#include "engine/backends/cuda/kernels/launch.cuh"

namespace upscaled::cuda {
namespace {

template <typename Storage>
__global__ void __launch_bounds__(Elementwise::kThreads)
    ElementwiseKernel(const __grid_constant__ ElementwiseParams params) {
  RunElementwise<Storage>(params);
}

}  // namespace

cudaError_t LaunchElementwise(const ElementwiseParams& params, Precision precision,
                              cudaStream_t stream) {
  return LaunchPixels(
      precision == Precision::kFast ? ElementwiseKernel<Half> : ElementwiseKernel<float>,
      params.dst.region, WrittenPlanes(params), params.tiles, params, stream);
}

}  // namespace upscaled::cuda
