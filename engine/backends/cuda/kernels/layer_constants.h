// A layer's constants for kernels, besides its weights.
#pragma once

#include <vector>

#include "engine/backends/cuda/kernels/activation.h"
#include "engine/model/network.h"

namespace upscaled::cuda {

ActivationParams ActivationOf(const Layer& layer);

// Zero where the layer has none.
float BiasOf(const Layer& layer, int channel);
float SlopeOf(const Layer& layer, int channel);

// kPlaneConstants for each plane of the layer's result.
std::vector<float> PackConstants(const Layer& layer);

}  // namespace upscaled::cuda
