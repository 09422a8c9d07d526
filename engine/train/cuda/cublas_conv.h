// direct_conv.h's sums of products ("kn2row") on a CUDA device, over whole images instead of their
// lines. With `pitch` pixels from a line to the next, tap (ky, kx) reads ky * pitch + kx pixels
// further on, in any line. So a tap is one product, and a kernel's line of the weights' derivative
// a batch of products. Their results behind the end of a line are not read.
#pragma once

#include <memory>

#include "engine/train/conv_kernel.h"
#include "engine/train/cuda/cublas.h"

namespace upscaled::train {

// All kernels share the device.
ConvDevice CublasConvs(std::shared_ptr<Cublas> device);

}  // namespace upscaled::train
