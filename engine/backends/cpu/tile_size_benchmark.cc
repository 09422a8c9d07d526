#include "engine/backends/cpu/tile_size_benchmark.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/backends/backend.h"
#include "engine/backends/cpu/cpu_kernel_set.h"
#include "engine/backends/cpu/row_schedule.h"
#include "engine/backends/cpu/run_tile.h"
#include "engine/base/string_view.h"
#include "engine/graph/inner_tile.h"

namespace upscaled::cpu {
namespace {

// Enough for every layer's blocks, and as many for all sizes.
constexpr int kBenchmarkRows = 48;

// The tile's pixels times the part's share of its multiply-adds: what lies above and below a part
// costs it more than the tile.
double WorthOf(const Program& program, const InnerTile& part, const InnerTile& tile) {
  const auto macs_of = [&](const InnerTile& of) {
    return TileMacs(program.network, PlanTile(program, of.image, of.rect).regions);
  };
  const double macs = macs_of(tile);
  if (macs == 0) return static_cast<double>(part.rect.Area());
  return static_cast<double>(tile.rect.Area()) * macs_of(part) / macs;
}

}  // namespace

std::string TileSizeBenchmark::device() const { return DeviceName(isa_); }

// Networks that agree in this take the same time, or nearly so.
std::string TileSizeBenchmark::network() const {
  return absl::StrCat(ToAbsl(PrecisionName(program_.precision)), " tiles of ",
                      network_.layers.size(), " layers, ", std::llround(MacsPerPixel()),
                      " multiply-adds a pixel");
}

double TileSizeBenchmark::MacsPerPixel() const {
  return network_.MacsPerOutputPixel() * network_.scale * network_.scale;
}

double TileSizeBenchmark::Run(Size tile) {
  const InnerTile part =
      InnerTileOf(program_.network, {tile.width, std::min(tile.height, kBenchmarkRows)});
  auto plan = std::make_shared<const TilePlan>(PlanTile(program_, part.image, part.rect));
  const Rect input = plan->input;
  Image source({input.width, input.height, 3, SampleType::kU8});
  std::fill_n(source.mutable_view().data, source.bytes(), uint8_t{128});
  const int scale = program_.network.scale;
  Image result({part.rect.width * scale, part.rect.height * scale, 3, SampleType::kU8});
  std::vector<ChannelMeans> means;
  for (const int pooling : program_.poolings) {
    means.emplace_back(program_.network.layers[pooling].out_channels);
  }
  const PoolingPass pass{.means = means};
  const TileTask task{std::move(plan), source.view(), input, result.mutable_view(), &pass};
  Team alone;
  RunTile(program_, task, workspace_, alone, [](const RowSchedule::Step&) {});
  return WorthOf(program_, part, InnerTileOf(program_.network, tile));
}

}  // namespace upscaled::cpu
