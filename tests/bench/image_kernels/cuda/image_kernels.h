// The image kernels on a CUDA device.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "tests/bench/image_kernels/image_kernels.h"

namespace upscaled::cuda {

// `device`: as the runtime counts. UNAVAILABLE when there is no such device or no driver.
absl::StatusOr<std::unique_ptr<ImageKernels>> CreateImageKernels(int device);

}  // namespace upscaled::cuda
