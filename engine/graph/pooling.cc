#include "engine/graph/pooling.h"

#include <algorithm>
#include <cmath>

#include "engine/model/shapes.h"

namespace upscaled {
namespace {

// Where the share of what begins at pixel `at` of the image begins in the layer, along one axis.
// The middles of both lie on each other; `pitch`: layer pixels per pixel of the image.
int ShareBegin(int at, int image_side, int layer_side, double pitch) {
  if (at <= 0) return 0;
  if (at >= image_side) return layer_side;
  const double begin = (at - image_side / 2.0) * pitch + layer_side / 2.0;
  return std::clamp(static_cast<int>(std::floor(begin)), 0, layer_side);
}

}  // namespace

std::vector<int> ListPoolings(const Network& network) {
  std::vector<int> poolings;
  for (size_t i = 0; i < network.layers.size(); ++i) {
    if (network.layers[i].op == Op::kGlobalAveragePool) poolings.push_back(static_cast<int>(i));
  }
  return poolings;
}

Rect PooledShare(const Network& network, int pooling, Size image, const Rect& tile) {
  const int pooled = network.layers[pooling].inputs[0];
  const Size layer = LayerSizes(network, image)[pooled];
  const double pitch = std::sqrt(LayerDensities(network)[pooled]);
  const int x = ShareBegin(tile.x, image.width, layer.width, pitch);
  const int y = ShareBegin(tile.y, image.height, layer.height, pitch);
  return {x, y, ShareBegin(tile.right(), image.width, layer.width, pitch) - x,
          ShareBegin(tile.bottom(), image.height, layer.height, pitch) - y};
}

void ChannelSums::Add(const ChannelSums& other) {
  for (size_t c = 0; c < sums_.size(); ++c) sums_[c] += other.sums_[c];
}

ChannelMeans ChannelSums::Means(int64_t pixels) const {
  ChannelMeans means;
  means.reserve(sums_.size());
  for (const absl::int128 sum : sums_) {
    means.push_back(
        static_cast<float>(static_cast<double>(sum) / kUnit / static_cast<double>(pixels)));
  }
  return means;
}

}  // namespace upscaled
