#include "engine/backends/cpu/tile_trial.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "engine/backends/backend.h"
#include "engine/backends/cpu/candidates.h"
#include "engine/backends/cpu/run_tile.h"
#include "engine/backends/cpu/tile_plan.h"
#include "engine/base/string_view.h"
#include "engine/graph/inner_tile.h"
#include "engine/model/multiply_adds.h"
#include "engine/model/shapes.h"

namespace upscaled::cpu {
namespace {

// What lies above and below is computed, too, and costs all sizes the same.
constexpr int kTrialRows = 48;

}  // namespace

std::string TileTrial::device() const { return DeviceName(isa_); }

// Networks that agree in this take the same time, or nearly so.
std::string TileTrial::network() const {
  return absl::StrCat(ToAbsl(PrecisionName(program_.precision)), " tiles of ",
                      network_.layers.size(), " layers, ", std::llround(MacsPerPixel()),
                      " multiply-adds a pixel");
}

double TileTrial::MacsPerPixel() const {
  const std::vector<double> densities = LayerDensities(network_);
  double macs = 0;
  for (size_t i = 0; i < densities.size(); ++i) {
    macs += MultiplyAdds(network_.layers[i], densities[i]);
  }
  return macs;
}

int64_t TileTrial::Run(Size tile) {
  const InnerTile part({tile.width, std::min(tile.height, kTrialRows)});
  const Rect input = SourceOf(program_, part.image, part.rect);
  Image source({input.width, input.height, 3, SampleType::kU8});
  std::fill_n(source.mutable_view().data, source.bytes(), uint8_t{128});
  const int scale = program_.network.scale;
  Image result({part.rect.width * scale, part.rect.height * scale, 3, SampleType::kU8});
  std::vector<ChannelMeans> means;
  for (const int pooling : program_.poolings) {
    means.emplace_back(program_.network.layers[pooling].out_channels);
  }
  TileTask task{source.view(), input, part.image, part.rect, result.mutable_view()};
  task.means = means;
  RunTile(program_, task, workspace_, [](const TilePlan::Step&) {});
  return part.rect.Area();
}

}  // namespace upscaled::cpu
