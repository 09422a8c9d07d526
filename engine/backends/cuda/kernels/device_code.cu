#include "engine/backends/cuda/kernels/device_code.h"

#include <cuda_runtime.h>

namespace upscaled::cuda {
namespace {

__global__ void ProbeKernel() {}

}  // namespace

cudaError_t FindDeviceCode() {
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes, ProbeKernel);
}

}  // namespace upscaled::cuda
