#include "engine/backends/cpu/tile_size_benchmark.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "engine/backends/backend.h"
#include "engine/backends/cpu/cpu_kernel_set.h"
#include "engine/backends/cpu/run_tile.h"
#include "engine/backends/cpu/tile_plan.h"
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
    return TileMacs(program.network, RegionsOf(program, of.image, of.rect));
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
  const InnerTile part({tile.width, std::min(tile.height, kBenchmarkRows)});
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
  return WorthOf(program_, part, InnerTile(tile));
}

}  // namespace upscaled::cpu
