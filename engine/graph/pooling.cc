#include "engine/graph/pooling.h"

#include <algorithm>
#include <cmath>

#include "engine/model/shapes.h"

namespace upscaled {
namespace {

// The layer's first position of a part at pixel `at` of the image, along one axis. The middles of
// both lie on each other; `pitch`: layer pixels per pixel of the image.
int PartBegin(int at, int image_side, int layer_side, double pitch) {
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

std::vector<Rect> PartialSumRects(const Network& network, std::span<const int> poolings, Size image,
                                  std::span<const Size> layer_sizes, const Rect& tile) {
  if (poolings.empty()) return {};
  const std::vector<double> densities = LayerDensities(network);
  std::vector<Rect> rects;
  rects.reserve(poolings.size());
  for (const int pooling : poolings) {
    const int pooled = network.layers[pooling].inputs[0];
    const Size layer = layer_sizes[pooled];
    const double pitch = std::sqrt(densities[pooled]);
    const int x = PartBegin(tile.x, image.width, layer.width, pitch);
    const int y = PartBegin(tile.y, image.height, layer.height, pitch);
    rects.push_back({x, y, PartBegin(tile.right(), image.width, layer.width, pitch) - x,
                     PartBegin(tile.bottom(), image.height, layer.height, pitch) - y});
  }
  return rects;
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
