// Errors of CUDA calls as absl::Status.
#pragma once

#include <cuda_runtime_api.h>

#include <string_view>

#include "absl/status/status.h"

namespace upscaled::cuda {

// OK for cudaSuccess. RESOURCE_EXHAUSTED when memory is out, UNAVAILABLE when the device, its
// driver or its context cannot be used, else INTERNAL; the message names the device, the call and
// the error. `call` may go on: "cudaMalloc of 12 MiB".
absl::Status ToStatus(cudaError_t error, std::string_view call, std::string_view device);

// Whether the error spoils the context: every later call fails, and its contents are lost.
bool LosesContext(cudaError_t error);

}  // namespace upscaled::cuda
