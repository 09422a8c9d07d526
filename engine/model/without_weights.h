// Networks as they are kept once their weights are packed.
#pragma once

#include "engine/model/network.h"

namespace upscaled {

// Copies of descriptions without weights; biases and slopes stay.
Layer WithoutWeights(const Layer& layer);
Network WithoutWeights(const Network& network);

}  // namespace upscaled
