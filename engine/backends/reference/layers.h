// Every operation of a network, written as its definition reads: the oracle of all other backends.
#pragma once

#include <span>

#include "engine/backends/reference/tensor.h"
#include "engine/model/network.h"

namespace upscaled::reference {

// Fills `dst` (its region says what to compute) from the layer's inputs, activation included. Each
// input must hold what TilePlan::regions says; what a convolution reads outside it is zero padding.
// Sums are double, in an order that depends on the layer alone, so that a value never depends on
// the region it is computed in. Any op but kInput; of a global pooling `dst` holds the means.
void ComputeLayer(const Layer& layer, std::span<const Tensor* const> inputs, Tensor& dst);

}  // namespace upscaled::reference
