// A picture's tiles on one stream, with what global poolings need of all of them first.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "engine/backends/backend.h"
#include "engine/base/status_macros.h"
#include "engine/pipeline/pooled_means.h"

namespace upscaled::test {

// `tiles` cover the picture. With `keep` every other tile has a memory.
inline absl::Status RunPicture(Stream& stream, const Executable& executable,
                               std::vector<TileTask> tiles, bool keep = false) {
  std::vector<std::unique_ptr<TileMemory>> memories;
  for (size_t i = 0; keep && i < tiles.size(); i += 2) {
    tiles[i].memory = memories.emplace_back(executable.CreateTileMemory()).get();
  }
  ASSIGN_OR_RETURN(const std::vector<ChannelMeans> means,
                   GatherMeans(executable.network(), tiles, [&](std::span<const TileTask> tasks) {
                     return stream.Run(executable, tasks);
                   }));
  for (TileTask& tile : tiles) tile.means = means;
  return stream.Run(executable, tiles);
}

}  // namespace upscaled::test
