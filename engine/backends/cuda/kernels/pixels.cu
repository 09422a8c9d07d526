#include "engine/backends/cuda/kernels/pixels.h"

#include "engine/backends/cuda/kernels/launch.cuh"
#include "engine/backends/cuda/kernels/pixels_kernel.h"

namespace upscaled::cuda {
namespace {

template <typename Storage>
__global__ void __launch_bounds__(Elementwise::kThreads)
    LoadPixelsKernel(const __grid_constant__ LoadPixelsParams params) {
  RunLoadPixels<Storage>(params);
}

template <typename Storage>
__global__ void __launch_bounds__(Elementwise::kThreads)
    StorePixelsKernel(const __grid_constant__ StorePixelsParams params) {
  RunStorePixels<Storage>(params);
}

}  // namespace

cudaError_t LaunchLoadPixels(const SampleView& src, Size image_size, int pad_px,
                             const TensorView& dst, int tiles, Precision precision,
                             cudaStream_t stream) {
  return LaunchPixels(
      precision == Precision::kFast ? LoadPixelsKernel<Half> : LoadPixelsKernel<float>, dst.region,
      1, tiles, LoadPixelsParams{src, image_size, pad_px, dst}, stream);
}

cudaError_t LaunchStorePixels(const TensorView& src, const SampleView& dst, int tiles,
                              Precision precision, cudaStream_t stream) {
  return LaunchPixels(
      precision == Precision::kFast ? StorePixelsKernel<Half> : StorePixelsKernel<float>, dst.rect,
      1, tiles, StorePixelsParams{src, dst}, stream);
}

}  // namespace upscaled::cuda
