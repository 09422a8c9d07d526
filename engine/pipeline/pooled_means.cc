#include "engine/pipeline/pooled_means.h"

#include <algorithm>
#include <utility>

#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "engine/graph/pooling.h"
#include "engine/model/shapes.h"

namespace upscaled {

PooledMeans::PooledMeans(const Network& network, Size image) {
  const std::vector<Size> sizes = LayerSizes(network, image);
  for (const int pooling : ListPoolings(network)) {
    pixels_.push_back(sizes[network.layers[pooling].inputs[0]].Area());
  }
}

void PooledMeans::Finish(std::span<const ChannelSums> sums) {
  UPSCALED_CHECK(!complete() && !sums.empty());
  ChannelSums total = sums.front();
  for (const ChannelSums& tile : sums.subspan(1)) total.Add(tile);
  means_.push_back(total.Means(pixels_[means_.size()]));
}

absl::StatusOr<std::vector<ChannelMeans>> GatherMeans(
    const Network& network, std::vector<TileTask> tiles,
    absl::FunctionRef<absl::Status(std::span<const TileTask>)> run) {
  PooledMeans means(network, tiles.front().image);
  std::vector<ChannelSums> sums(tiles.size());
  while (!means.complete()) {
    for (size_t i = 0; i < tiles.size(); ++i) {
      tiles[i].means = means.means();
      tiles[i].sums = &sums[i];
    }
    RETURN_IF_ERROR(run(tiles));
    means.Finish(sums);
  }
  return std::vector<ChannelMeans>(means.means().begin(), means.means().end());
}

size_t GatherBytes(const Network& network, int64_t tiles) {
  int channels = 0;
  for (const int pooling : ListPoolings(network)) {
    channels = std::max(channels, network.layers[pooling].out_channels);
  }
  if (channels == 0) return 0;
  // The tasks here, on their way and in the executor's queue.
  const size_t tile = sizeof(ChannelSums) + sizeof(absl::int128) * channels + 3 * sizeof(TileTask);
  return tile * static_cast<size_t>(tiles);
}

}  // namespace upscaled
