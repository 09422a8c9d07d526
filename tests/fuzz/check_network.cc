#include "tests/fuzz/check_network.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "engine/backends/reference/run_tile.h"
#include "engine/graph/tile_geometry.h"
#include "engine/image/image.h"

namespace upscaled {
namespace {

constexpr Size kPicture = {5, 4};
constexpr Rect kTile = {1, 1, 3, 2};
constexpr double kMaxWork = 2e6;  // multiply-adds, so that an input takes milliseconds

double Work(const Network& network, const std::vector<Rect>& regions) {
  double work = 0;
  for (size_t i = 0; i < network.layers.size(); ++i) {
    const Layer& layer = network.layers[i];
    const double per_pixel =
        std::max<double>(layer.out_channels, static_cast<double>(layer.weights.size()));
    work += static_cast<double>(regions[i].Area()) * per_pixel;
  }
  return work;
}

}  // namespace

void CheckLoadedNetwork(const Network& network) {
  if (!network.Validate().ok()) std::abort();
  const std::vector<Rect> regions = LayerRegions(network, kPicture, kTile, {});
  if (Work(network, regions) > kMaxWork) return;
  Image source({kPicture.width, kPicture.height, 3, SampleType::kU8});
  std::fill_n(source.mutable_view().data, source.bytes(), uint8_t{77});
  Image result({kTile.width * network.scale, kTile.height * network.scale, 3, SampleType::kU8});
  reference::RunTile(network, {source.view(),
                               {0, 0, kPicture.width, kPicture.height},
                               kPicture,
                               kTile,
                               result.mutable_view()});
}

}  // namespace upscaled
