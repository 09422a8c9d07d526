// The promises that hold for every network a loader accepts.
#pragma once

#include "engine/model/network.h"

namespace upscaled {

// Aborts unless `network` validates and, when it is small, is bit-exact whole and in tiles
// on every backend that compiles it.
void CheckLoadedNetwork(const Network& network);

}  // namespace upscaled
