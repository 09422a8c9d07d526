#include "engine/backends/cuda/tile_place.h"

#include <algorithm>
#include <utility>

#include "engine/backends/cuda/kernels/tensor_view.h"
#include "engine/graph/tile_geometry.h"

namespace upscaled::cuda {
namespace {

// The number of pixels on one side of a tile with an effect.
int Near(int distance, int reach, int period) {
  const int spare = distance - (reach + 2 * period);
  return spare <= 0 ? distance : distance - spare / period * period;
}

TilePlace NearOrigin(const TilePlace& place, int reach, int period) {
  const Rect& tile = place.tile;
  const auto near = [&](int distance) { return Near(distance, reach, period); };
  TilePlace moved;
  moved.tile = {near(tile.x), near(tile.y), tile.width, tile.height};
  moved.image = {moved.tile.right() + near(place.image.width - tile.right()),
                 moved.tile.bottom() + near(place.image.height - tile.bottom())};
  return moved;
}

// A tile's pixels of its image; plan.input may cover the needs of other devices.
Rect SourceOf(const Network& network, const TilePlan& plan) {
  return SourceRect(network, plan.regions[0], plan.image);
}

// Whether both have one size and lie at the same edges of their layers.
bool LookTheSame(const Rect& a, Size layer_a, const Rect& b, Size layer_b) {
  return a.width == b.width && a.height == b.height && (a.x == 0) == (b.x == 0) &&
         (a.y == 0) == (b.y == 0) && (a.right() == layer_a.width) == (b.right() == layer_b.width) &&
         (a.bottom() == layer_a.height) == (b.bottom() == layer_b.height);
}

bool LookTheSame(const Network& network, const TilePlan& a, const TilePlan& b) {
  for (size_t i = 0; i < a.regions.size(); ++i) {
    if (a.regions[i].empty() && b.regions[i].empty()) continue;
    if (!LookTheSame(a.regions[i], a.layer_sizes[i], b.regions[i], b.layer_sizes[i])) return false;
  }
  return LookTheSame(SourceOf(network, a), a.image, SourceOf(network, b), b.image);
}

}  // namespace

PlacedTile PlaceTile(const Program& program, const TilePlan& plan) {
  const Network& network = program.network;
  PlacedTile placed;
  placed.place = NearOrigin({plan.image, plan.tile}, program.reach_px, program.period_px);
  TilePlan chosen = PlanTile(program, placed.place.image, placed.place.tile);
  if (!LookTheSame(network, plan, chosen)) {
    placed.place = {plan.image, plan.tile};
    chosen = plan;
  }
  placed.source = SourceOf(network, chosen);
  placed.regions = std::move(chosen.regions);
  placed.layers = std::move(chosen.layer_sizes);
  for (size_t p = 0; p < program.poolings.size(); ++p) {
    // Rounded where the tile lies, so its neighbours agree.
    Rect summed = plan.partial_sum_rects[p];
    const int pooled = network.layers[program.poolings[p]].inputs[0];
    summed.x += placed.regions[pooled].x - plan.regions[pooled].x;
    summed.y += placed.regions[pooled].y - plan.regions[pooled].y;
    placed.partial_sum_rects.push_back(summed);
  }
  placed.rects.resize(program.allocations.size());
  for (size_t i = 0; i < placed.regions.size(); ++i) {
    const int allocation = program.placements[i].allocation;
    if (allocation < 0) continue;
    placed.rects[allocation] = Cover(placed.rects[allocation], placed.regions[i]);
  }
  return placed;
}

std::vector<size_t> SlotBytes(const Program& program, const PlacedTile& plan, Precision precision) {
  std::vector<size_t> bytes(program.slots);
  for (size_t i = 0; i < plan.rects.size(); ++i) {
    const Allocation& allocation = program.allocations[i];
    const size_t values =
        static_cast<size_t>(plan.rects[i].Area()) * allocation.planes * kPlaneChannels;
    bytes[allocation.slot] = std::max(bytes[allocation.slot], values * StorageBytes(precision));
  }
  return bytes;
}

}  // namespace upscaled::cuda
