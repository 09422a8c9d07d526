// Weights as kernels take them: channels padded with zeros.
#pragma once

#include "engine/train/conv_kernel.h"

namespace upscaled::train {

// [tap][`in`][`out`] of a layer's parameters, where `in` and `out` are the shape's, padded.
template <typename Real>
void PackWeights(const ConvShape& shape, const Real* params, int in, int out, Real* packed);
// [tap][`out`][`in`] with the taps in reverse order, for the convolution from the derivative by the
// result to the derivative by the source.
template <typename Real>
void PackTurnedWeights(const ConvShape& shape, const Real* params, int in, int out, Real* packed);
// Adds the derivatives by the packed weights to the ones by the parameters.
template <typename Real>
void AddPacked(const ConvShape& shape, const Real* packed, int in, int out, Real* d_params);

}  // namespace upscaled::train
