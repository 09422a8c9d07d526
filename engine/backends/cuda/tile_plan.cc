#include "engine/backends/cuda/tile_plan.h"

#include <algorithm>
#include <utility>

#include "engine/backends/cuda/kernels/tensor_view.h"
#include "engine/graph/pooling.h"
#include "engine/graph/tile_geometry.h"

namespace upscaled::cuda {
namespace {

std::vector<Rect> RegionsOf(const Network& network, const TilePlace& place) {
  return LayerRegions(network, place.image, place.tile, {});
}

// Of the pixels on one side of a tile, those that matter.
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

// A place with what it makes of every layer, the image among them.
struct Geometry {
  std::vector<Rect> regions;
  std::vector<Size> layers;
  Rect source;
  Size image;
};

Geometry GeometryOf(const Network& network, const TilePlace& place) {
  Geometry geometry{RegionsOf(network, place), LayerSizes(network, place.image), {}, place.image};
  geometry.source = SourceRect(network, geometry.regions[0], place.image);
  return geometry;
}

// Of one size, and at the same edges of their layers.
bool LookTheSame(const Rect& a, Size layer_a, const Rect& b, Size layer_b) {
  return a.width == b.width && a.height == b.height && (a.x == 0) == (b.x == 0) &&
         (a.y == 0) == (b.y == 0) && (a.right() == layer_a.width) == (b.right() == layer_b.width) &&
         (a.bottom() == layer_a.height) == (b.bottom() == layer_b.height);
}

bool LookTheSame(const Geometry& a, const Geometry& b) {
  for (size_t i = 0; i < a.regions.size(); ++i) {
    if (a.regions[i].empty() && b.regions[i].empty()) continue;
    if (!LookTheSame(a.regions[i], a.layers[i], b.regions[i], b.layers[i])) return false;
  }
  return LookTheSame(a.source, a.image, b.source, b.image);
}

}  // namespace

Rect SourceOf(const Program& program, const TilePlace& tile) {
  return SourceRect(program.network, RegionsOf(program.network, tile)[0], tile.image);
}

TilePlan PlanTile(const Program& program, const TilePlace& tile) {
  const Network& network = program.network;
  const TilePlace near = NearOrigin(tile, program.reach_px, program.period_px);
  const Geometry given = GeometryOf(network, tile);
  Geometry chosen = GeometryOf(network, near);
  TilePlan plan;
  plan.place = near;
  if (!LookTheSame(given, chosen)) {
    plan.place = tile;
    chosen = given;
  }
  plan.source = chosen.source;
  plan.regions = std::move(chosen.regions);
  plan.layers = std::move(chosen.layers);
  for (const int pooling : program.poolings) {
    // Rounded where the tile lies, so that its neighbours agree.
    Rect share = PooledShare(network, pooling, tile.image, tile.tile);
    const int pooled = network.layers[pooling].inputs[0];
    share.x += plan.regions[pooled].x - given.regions[pooled].x;
    share.y += plan.regions[pooled].y - given.regions[pooled].y;
    plan.shares.push_back(share);
  }
  plan.rects.resize(program.allocations.size());
  for (size_t i = 0; i < plan.regions.size(); ++i) {
    const int allocation = program.placements[i].allocation;
    if (allocation < 0) continue;
    plan.rects[allocation] = Cover(plan.rects[allocation], plan.regions[i]);
  }
  return plan;
}

std::vector<size_t> SlotBytes(const Program& program, const TilePlan& plan, Precision precision) {
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
