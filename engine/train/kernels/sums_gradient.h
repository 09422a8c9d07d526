// From the derivative by a layer's activated result to the one by its sums.
#pragma once

#include "engine/backends/cpu/kernels/isa.h"

namespace upscaled::train {

// A line of pixels.
template <typename Real>
struct SumsGradientArgs {
  int pixels;
  int stride, padded;  // values from a pixel to the next, of the result and of d_sums
  const Real* result;
  const Real* d_result;
  Real slope;    // of the activation where the result is not above 0
  Real* d_sums;  // d_result times 1 or the slope
  Real* total;   // adds that of all pixels, [padded]
};

template <typename Real>
using SumsGradientFunction = void (*)(const SumsGradientArgs<Real>& args);

// For this many channels.
template <typename Real>
SumsGradientFunction<Real> SumsGradientFor(cpu::Isa isa, int channels);

}  // namespace upscaled::train
