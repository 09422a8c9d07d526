// The image kernels of this build's devices.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/bench/image_kernels/image_kernels.h"

namespace upscaled::bench {

// Kernels in steps: the plain ones first where the device has none itself.
using ImageKernelsList = std::vector<std::unique_ptr<ImageKernels>>;

// `device` is "cpu", "opencl", "opencl:P.D" or "cuda:N"; `threads` are the cpu's. UNAVAILABLE or
// INVALID_ARGUMENT lists the available ones.
absl::StatusOr<ImageKernelsList> CreateImageKernels(const std::string& device, int threads);

}  // namespace upscaled::bench
