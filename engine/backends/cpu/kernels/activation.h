// The activation of layers that are computed by plain code.
#pragma once

#include "engine/backends/cpu/kernels/kernel.h"
#include "engine/model/network.h"

namespace upscaled::cpu {

// Applies layer.activation in place to `width_px` pixels of row `y` from column `x`.
void ApplyActivation(const Layer& layer, const Tensor& tensor, int y, int x, int width_px);

}  // namespace upscaled::cpu
