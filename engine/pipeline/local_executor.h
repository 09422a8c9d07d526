// Runs tiles in order of arrival on a thread per stream: for benches, tests and tools.
#pragma once

#include <memory>
#include <vector>

#include "engine/backends/backend.h"
#include "engine/pipeline/tile_executor.h"

namespace upscaled {

// All streams of one backend. The backend must outlive it. Destruction waits for the queued tiles.
std::unique_ptr<TileExecutor> MakeLocalExecutor(Backend& backend);
std::unique_ptr<TileExecutor> MakeLocalExecutor(std::vector<std::unique_ptr<Stream>> streams);

}  // namespace upscaled
