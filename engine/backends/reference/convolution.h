// Convolutions of every kind.
#pragma once

#include <cstddef>

#include "engine/backends/reference/tensor.h"
#include "engine/model/network.h"

namespace upscaled::reference {

// Fills `dst` with a kConv, kGroupedConv or kConvTranspose of `src`, bias included, activation not:
// see ComputeLayer.
void Convolve(const Layer& layer, const Tensor& src, Tensor& dst);

// Its memory in addition to the tensors.
size_t ConvolveBytes(const Layer& layer);

}  // namespace upscaled::reference
