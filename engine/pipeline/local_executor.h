// Runs tiles in order of arrival on a thread per stream of one backend: for benches, tests and
// tools.
#pragma once

#include <memory>

#include "engine/backends/backend.h"
#include "engine/pipeline/tile_executor.h"

namespace upscaled {

// `backend` must outlive it. Destruction waits for the queued tiles.
std::unique_ptr<TileExecutor> MakeLocalExecutor(Backend& backend);

}  // namespace upscaled
