// The layers of elementwise kernels.
#pragma once

#include "engine/backends/cuda/kernels/elementwise_params.h"
#include "engine/model/network.h"

namespace upscaled::cuda {

// Every operation that is neither the input, a convolution nor about whole images.
bool ElementwiseSupports(const Layer& layer);

// All fields fixed by the layer. The caller sets tensors, constants and first_channel. `one_pixel`:
// whether a kMul's second input is one.
ElementwiseParams ElementwiseOf(const Layer& layer, bool one_pixel);

}  // namespace upscaled::cuda
