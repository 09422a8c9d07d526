// An image's tiles, run with what global poolings need of all of them first.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "engine/backends/backend.h"
#include "engine/base/geometry.h"
#include "engine/base/status_macros.h"
#include "engine/image/image.h"
#include "engine/pipeline/pooled_means.h"

namespace upscaled::test {

// `tile` of the image, with no more of the source than it needs.
inline TileTask MakeTask(const Executable& executable, const Image& source, const Rect& tile,
                         Image& result) {
  const Size size = source.spec().size();
  const Rect input = executable.InputRect(tile, size);
  return {source.view().Crop(input), input, size, tile,
          result.mutable_view().Crop(Scale(tile, executable.network().scale))};
}

// `tiles` cover the image; `run` runs what it is given.
inline absl::Status RunImage(const Executable& executable, std::vector<TileTask> tiles,
                             absl::FunctionRef<absl::Status(std::span<const TileTask>)> run) {
  ASSIGN_OR_RETURN(const std::vector<ChannelMeans> means,
                   GatherMeans(executable.network(), tiles, run));
  for (TileTask& tile : tiles) tile.means = means;
  return run(tiles);
}

// The same on one stream. With `keep` every other tile has a memory.
inline absl::Status RunImage(Stream& stream, const Executable& executable,
                             std::vector<TileTask> tiles, bool keep = false) {
  std::vector<std::unique_ptr<ActivationCache>> memories;
  for (size_t i = 0; keep && i < tiles.size(); i += 2) {
    tiles[i].memory = memories.emplace_back(executable.CreateActivationCache()).get();
  }
  return RunImage(executable, std::move(tiles),
                  [&](std::span<const TileTask> tasks) { return stream.Run(executable, tasks); });
}

}  // namespace upscaled::test
