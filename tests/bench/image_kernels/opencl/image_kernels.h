// The image kernels on an OpenCL device: bilateral.cl, transpose.cl and reduce.cl.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "engine/backends/opencl/context.h"
#include "tests/bench/image_kernels/image_kernels.h"

namespace upscaled::opencl {

absl::StatusOr<std::unique_ptr<ImageKernels>> CreateImageKernels(std::shared_ptr<Context> context);

}  // namespace upscaled::opencl
