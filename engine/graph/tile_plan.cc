#include "engine/graph/tile_plan.h"

#include <algorithm>

#include "engine/base/check.h"
#include "engine/graph/pooling.h"
#include "engine/model/multiply_adds.h"
#include "engine/model/shapes.h"

namespace upscaled {
namespace {

Rect Whole(Size size) { return {0, 0, size.width, size.height}; }

// TilePlan::pass_costs.
std::vector<int64_t> PassCosts(const Network& network, std::span<const Rect> regions) {
  constexpr double kMaxCost = 1e17;  // sums of thousands of tiles stay inside an int64_t
  std::vector<int64_t> costs;
  double macs = kTileOverheadCost;
  const auto end_pass = [&] { costs.push_back(static_cast<int64_t>(std::min(macs, kMaxCost))); };
  for (size_t i = 0; i < network.layers.size(); ++i) {
    if (network.layers[i].op == Op::kGlobalAveragePool) end_pass();
    macs += MultiplyAdds(network.layers[i], static_cast<double>(regions[i].Area()));
  }
  end_pass();
  return costs;
}

}  // namespace

int64_t TilePlan::PassCost(size_t pass, bool cached) const {
  if (pass >= pass_costs.size()) return kTileOverheadCost;
  const bool resumed = cached && pass > 0;
  return pass_costs[pass] - (resumed ? pass_costs[pass - 1] - kTileOverheadCost : 0);
}

int64_t TilePlan::Cost(bool cached) const {
  int64_t cost = 0;
  for (size_t pass = 0; pass < std::max<size_t>(pass_costs.size(), 1); ++pass) {
    cost += PassCost(pass, cached);
  }
  return cost;
}

size_t TilePlan::bytes() const {
  constexpr size_t kAllocations = 5 * 64;  // the vectors, and the plan with its owners' count
  return sizeof(TilePlan) + kAllocations + regions.capacity() * sizeof(Rect) +
         layer_sizes.capacity() * sizeof(Size) + partial_sum_rects.capacity() * sizeof(Rect) +
         pass_costs.capacity() * sizeof(int64_t);
}

TilePlan PlanTile(const Network& network, Size image, const Rect& tile,
                  std::span<const int> block_px, std::span<const BlockOrigin> block_origins) {
  UPSCALED_CHECK(!network.layers.empty());
  TilePlan plan{.tile = tile, .image = image, .layer_sizes = LayerSizes(network, image)};
  const std::vector<Size>& sizes = plan.layer_sizes;
  std::vector<Rect>& regions = plan.regions;
  regions.resize(network.layers.size());
  regions.back() = Scale(tile, network.scale);
  const std::vector<int> poolings = ListPoolings(network);
  plan.partial_sum_rects = PartialSumRects(network, poolings, image, sizes, tile);
  for (size_t p = 0; p < poolings.size(); ++p) {
    Rect& pooled = regions[network.layers[poolings[p]].inputs[0]];
    pooled = Cover(pooled, plan.partial_sum_rects[p]);
  }
  for (size_t i = network.layers.size(); i-- > 0;) {
    if (regions[i].empty()) continue;
    const int block = block_px.empty() ? 1 : block_px[i];
    const BlockOrigin origin = block_origins.empty() ? BlockOrigin() : block_origins[i];
    regions[i] = Intersect(RoundToBlocks(regions[i], block, origin), Whole(sizes[i]));
    const Layer& layer = network.layers[i];
    for (size_t n = 0; n < layer.inputs.size(); ++n) {
      const int input = layer.inputs[n];
      regions[input] = Cover(regions[input], InputRegion(layer, regions[i], sizes[input], n));
    }
  }
  plan.pass_costs = PassCosts(network, regions);
  plan.input = SourceRect(network, regions[0], image);
  return plan;
}

}  // namespace upscaled
