// Whether the kernels were compiled for a device.
#pragma once

#include <cuda_runtime_api.h>

namespace upscaled::cuda {

// For the calling thread's device. cudaErrorNoKernelImageForDevice: there is no code for it, as for
// Jetsons, since they do not run the code of other devices of their generation;
// cudaErrorUnsupportedPtxVersion: its driver is too old to compile it.
cudaError_t FindDeviceCode();

}  // namespace upscaled::cuda
