// The image kernels on the CPU: engine/image's own where the engine has a use for them.
#pragma once

#include <memory>

#include "tests/bench/image_kernels/image_kernels.h"

namespace upscaled::cpu {

// Results are the same for every number of threads (at least 1). The bilateral filter, a stage of
// the pipeline, runs on one.
std::unique_ptr<ImageKernels> CreateImageKernels(int threads);

}  // namespace upscaled::cpu
