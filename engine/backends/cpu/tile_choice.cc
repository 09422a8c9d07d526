#include "engine/backends/cpu/tile_choice.h"

#include <algorithm>
#include <new>
#include <utility>

#include "engine/backends/cpu/row_schedule.h"
#include "engine/backends/cpu/tile_size_benchmark.h"
#include "engine/base/status_macros.h"
#include "engine/graph/tile_choice.h"
#include "engine/model/multiply_adds.h"

namespace upscaled::cpu {
namespace {

constexpr Size kLargestFirst[] = {{960, 540}, {720, 408}, {480, 270}, {360, 204}, {240, 135}};
// Widths of narrower tiles, no larger than the largest.
constexpr int kWidths[] = {720, 480, 360, 240, 180, 120};
constexpr int kMaxHeight = 540;

// The others would not be much faster than any of these.
constexpr size_t kMaxTried = 4;

// The cost of moving a byte between a core's own cache and the next one, in multiply-adds of the
// direct algorithm by the fastest kernels: some 10 GB/s next to 150 G a second.
constexpr double kMacsPerByte = 15;
constexpr double kFastMacsPerByte = 30;

std::vector<Rect> InnerRegions(const Program& program, Size size) {
  const InnerTile tile = InnerTileOf(program.network, size);
  return PlanTile(program, tile.image, tile.rect).regions;
}

TileLimits LimitsOf(const Program& program) {
  return {.largest_first = kLargestFirst,
          .smallest = kSmallestTile,
          // Half a second of one AVX-512 core.
          .max_macs = program.precision == Precision::kFast ? 300e9 : 150e9,
          // With global poolings what lies around a tile is computed again in every pass.
          .good_bytes = size_t{program.poolings.empty() ? 64u : 192u} << 20,
          .max_bytes = kMaxWorkspaceBytes,
          .memory_name = "workspace",
          .turned = true,
          .halo_counts = true};
}

size_t ValueBytes(const Program& program, int layer) {
  return program.steps[layer].half ? sizeof(uint16_t) : sizeof(float);
}

// The cost of one source pixel of such a tile, in multiply-adds.
double CostOf(const Program& program, Size size, size_t cache_bytes) {
  const std::vector<Rect> regions = InnerRegions(program, size);
  const std::vector<Layer>& layers = program.network.layers;
  // A walk through all layers comes between a kernel's use of its weights and the next.
  const bool weights_stay = program.weight_bytes <= cache_bytes / 2;
  double macs = 0, bytes = 0;
  for (size_t i = 1; i < layers.size(); ++i) {
    if (program.steps[i].kernel == nullptr) continue;
    const int rows = RowsAtOnce(program, static_cast<int>(i));
    double row_bytes = 0;
    const auto add_row = [&](int layer) {
      row_bytes += static_cast<double>(regions[layer].width) * layers[layer].out_channels *
                   static_cast<double>(ValueBytes(program, layer));
    };
    add_row(static_cast<int>(i));
    for (const int input : layers[i].inputs) add_row(input);
    const double steps = static_cast<double>(regions[i].height) / rows;
    if (row_bytes * rows > static_cast<double>(cache_bytes) / 2) bytes += row_bytes * rows * steps;
    if (!weights_stay) bytes += static_cast<double>(program.steps[i].kernel->WeightBytes()) * steps;
    // A layer behind a prelude is described as if it did the prelude's work as well.
    const bool has_prelude = program.steps[i].kernel_entry->prelude != nullptr;
    if (!has_prelude) macs += MultiplyAdds(layers[i], static_cast<double>(regions[i].Area()));
  }
  const bool fast = program.precision == Precision::kFast;
  return (macs + (fast ? kFastMacsPerByte : kMacsPerByte) * bytes) /
         static_cast<double>(size.Area());
}

void SortByCost(const Program& program, size_t cache_bytes, std::vector<Size>& tiles) {
  std::vector<std::pair<double, Size>> costs;
  for (const Size tile : tiles) costs.emplace_back(CostOf(program, tile, cache_bytes), tile);
  std::stable_sort(costs.begin(), costs.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::transform(costs.begin(), costs.end(), tiles.begin(),
                 [](const auto& cost) { return cost.second; });
}

}  // namespace

size_t WorkspaceOf(const Program& program, const InnerTile& tile) {
  return WorkspaceOf(program, tile.image, tile.rect);
}

size_t WorkspaceOf(const Program& program, Size image, const Rect& tile) {
  const TilePlan plan = PlanTile(program, image, tile);
  size_t floats = 0;
  for (size_t pass = 0; pass <= program.poolings.size(); ++pass) {
    floats = std::max(floats, MeasureRows(program, plan, pass).workspace_floats);
  }
  return floats * sizeof(float);
}

absl::StatusOr<std::vector<Size>> RankTiles(const Program& program, size_t cache_bytes) {
  const TileLimits limits = LimitsOf(program);
  const auto macs = [&](Size tile) {
    return TileMacs(program.network, InnerRegions(program, tile));
  };
  const auto bytes = [&](Size tile) -> absl::StatusOr<size_t> {
    return WorkspaceOf(program, InnerTileOf(program.network, tile));
  };
  const TileCosts costs{macs, bytes};
  ASSIGN_OR_RETURN(const Size largest, ChooseLargestTile(limits, costs));
  std::vector<Size> tiles = {largest};
  if (!IsGoodTile(limits, costs, largest)) return tiles;
  for (const int width : kWidths) {
    const Size tile{width, std::min(kMaxHeight, static_cast<int>(largest.Area() / width))};
    if (width < largest.width && IsGoodTile(limits, costs, tile)) tiles.push_back(tile);
  }
  SortByCost(program, cache_bytes, tiles);
  return tiles;
}

Size ChooseTile(const Network& network, const Program& program, Isa isa, std::vector<Size> tiles,
                KernelChooser* chooser) {
  if (chooser == nullptr || tiles.size() < 2) return tiles.front();
  tiles.resize(std::min<size_t>(tiles.size(), kMaxTried));
  const Size shipped = tiles.front();
  TileSizeBenchmark candidate(network, program, isa, std::move(tiles));
  try {
    return chooser->ChooseTile(candidate);
  } catch (const std::bad_alloc&) {  // for a candidate; images may still find room
    return shipped;
  }
}

}  // namespace upscaled::cpu
