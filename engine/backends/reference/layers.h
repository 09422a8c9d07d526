// Every operation of a network, written as its definition reads: the oracle of all other backends.
#pragma once

#include <span>

#include "engine/backends/reference/tensor.h"
#include "engine/model/network.h"

namespace upscaled::reference {

// Computes `dst.region` of a layer's output, activation included. Each input must cover its part
// of TilePlan::regions. A convolution reads zeros outside that. Sums are in double, in an order
// fixed by the layer, so a value never depends on the region computed. Accepts any op except
// kInput. For a global pooling, `dst` receives the means.
void ComputeLayer(const Layer& layer, std::span<const Tensor* const> inputs, Tensor& dst);

}  // namespace upscaled::reference
