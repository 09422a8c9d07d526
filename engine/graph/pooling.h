// Global average poolings of images in tiles. The mean of a layer over the whole image is gathered
// in a pass over all tiles of its own: every tile adds up its part of the layer, and the total is
// the same however the image was cut.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/numeric/int128.h"
#include "engine/base/geometry.h"
#include "engine/graph/activation_cache.h"
#include "engine/model/network.h"

namespace upscaled {

// The network's global poolings in order of execution, as indices of Network::layers. A pooling's
// number is its place in this list; it depends on none of higher numbers.
std::vector<int> ListPoolings(const Network& network);

// For each of the network's poolings (ListPoolings) `tile`'s part of its input layer: the parts of
// an image's tiles cover the layer without overlap. They lie where the tile's pixels do, but for a
// pixel of the layer and the uneven border of align_px. `layer_sizes`: of `image` (LayerSizes).
std::vector<Rect> PartialSumRects(const Network& network, std::span<const int> poolings, Size image,
                                  std::span<const Size> layer_sizes, const Rect& tile);

// One mean per channel of a pooled layer.
using ChannelMeans = std::vector<float>;

// Sums of one value per pixel and channel, independent of order and grouping: a value is first
// rounded to a multiple of 2^-24 within +-2^16, and such numbers are added without error.
class ChannelSums {
 public:
  // So many rounded values a double adds up exactly.
  static constexpr int kExactRun = 4096;

  static constexpr float kLimit = 1 << 16;
  static constexpr double kShift = 1.5 * (1 << 28);  // doubles beside it are 2^-24 apart

  // Rounds a value as sums count it; NaN counts as the upper limit.
  static double Round(float value) {
    const float clamped = value < kLimit ? (value > -kLimit ? value : -kLimit) : kLimit;
    return (clamped + kShift) - kShift;
  }

  explicit ChannelSums(size_t channels = 0) : sums_(channels) {}

  // `run`: the sum of up to kExactRun rounded values.
  void Add(size_t channel, double run) { sums_[channel] += static_cast<int64_t>(run * kUnit); }
  // Adds the sums of as many channels.
  void Add(const ChannelSums& other);

  size_t channels() const { return sums_.size(); }
  ChannelMeans Means(int64_t pixels) const;

  friend bool operator==(const ChannelSums&, const ChannelSums&) = default;

 private:
  static constexpr double kUnit = 1 << 24;

  std::vector<absl::int128> sums_;  // times kUnit
};

// One pass over the tiles of an image, as one of them sees it: as many gather partial sums as the
// network has poolings, in order, and the last one computes the result. The pipeline makes it
// (engine/pipeline/image_run.h), backends read it.
struct PoolingPass {
  std::span<const ChannelMeans> means = {};  // the first poolings'; all of them for the result
  ChannelSums* partial_sums = nullptr;  // not null: set to those of the next pooling, and no pixel
  ActivationCache* cache = nullptr;     // may be null; never changes the result

  bool gathers() const { return partial_sums != nullptr; }
  // Its number, from 0.
  size_t number() const { return means.size(); }
  // Its first layer if a cache holds the results of the passes before. `poolings`: ListPoolings.
  int FirstCachedLayer(std::span<const int> poolings) const {
    return means.empty() ? 0 : poolings[means.size() - 1];
  }
};

// The only pass of a network without poolings.
inline constexpr PoolingPass kNoPooling = {};

}  // namespace upscaled
