// One tile through a whole network, layer by layer.
#pragma once

#include <cstddef>

#include "absl/functional/function_ref.h"
#include "engine/backends/backend.h"
#include "engine/model/network.h"

namespace upscaled::reference {

// Writes task.dst or the pass's partial sums. `network` must have passed Validate and the task
// CheckTileTask. Holds every layer's region at once and allocates it each time: for tests, where
// clarity is worth more than speed. `layer_done` is called after each layer, for profiles.
void RunTile(
    const Network& network, const TileTask& task,
    absl::FunctionRef<void(size_t layer)> layer_done = [](size_t) {});

}  // namespace upscaled::reference
