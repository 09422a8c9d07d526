// What must hold for every network that a loader accepts.
#pragma once

#include "engine/model/network.h"

namespace upscaled {

// Aborts unless `network` validates; runs it, when it is small, on a tile of a picture.
void CheckLoadedNetwork(const Network& network);

}  // namespace upscaled
