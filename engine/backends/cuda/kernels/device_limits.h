// The device's limits, for the choice of kernels.
#pragma once

#include <cstddef>

namespace upscaled::cuda {

struct DeviceLimits {
  int architecture = 0;  // 10 * major + minor of the compute capability: 90
  int multiprocessors = 0;
  size_t shared_bytes = 0;  // cudaDevAttrMaxSharedMemoryPerBlockOptin
};

}  // namespace upscaled::cuda
