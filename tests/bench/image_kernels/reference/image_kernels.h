// The image kernels as their definitions read, in double precision.
#pragma once

#include <memory>

#include "engine/image/bilateral.h"
#include "engine/image/image.h"
#include "tests/bench/image_kernels/image_kernels.h"

namespace upscaled::reference {

// MakeBilateral's result for the whole of an integer image.
Image Bilateral(ImageView src, const BilateralOptions& options);

// One step, "plain", for each operation.
std::unique_ptr<ImageKernels> CreateImageKernels();

}  // namespace upscaled::reference
