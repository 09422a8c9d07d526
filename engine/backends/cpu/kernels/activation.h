// The activation of layers computed by plain code.
#pragma once

#include <cstddef>

#include "engine/backends/cpu/kernels/isa.h"
#include "engine/backends/cpu/kernels/kernel.h"
#include "engine/model/network.h"

namespace upscaled::cpu {

// Applies a curve (see curves.inc) to `count` adjacent values, of any alignment.
using CurveFunction = void (*)(EpilogueArgs::Kind kind, float* values, size_t count);
CurveFunction CurveFunctionFor(Isa isa);

// Applies layer.activation in place to `width_px` pixels of row `y` from column `x`.
void ApplyActivation(const Layer& layer, CurveFunction curve, const Tensor& tensor, int y, int x,
                     int width_px);

}  // namespace upscaled::cpu
