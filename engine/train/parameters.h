// The trained values of a network, as one vector: layer by layer, in the order of its steps.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/model/network.h"

namespace upscaled::train {

// The parameters of one layer: weights [tap][out][in], bias [out] and, of a PReLU, slopes [out].
size_t ParameterCount(const Layer& layer);

// The parameters of a network with weights in convolutions only.
std::vector<float> ReadParameters(const Network& network);
// As many as it has; into a network of the same shape.
void WriteParameters(const std::vector<float>& parameters, Network& network);

}  // namespace upscaled::train
