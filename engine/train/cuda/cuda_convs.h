// Convolutions on the first CUDA device, by cuBLAS.
#pragma once

#include "absl/status/statusor.h"
#include "engine/train/conv_kernel.h"

namespace upscaled::train {

// UNAVAILABLE names the missing part: CUDA in this build, the library, the driver, a device.
absl::StatusOr<ConvDevice> OpenCudaConvs();

}  // namespace upscaled::train
