#include "engine/pipeline/reach.h"

#include <algorithm>
#include <vector>

#include "engine/graph/pooling.h"
#include "engine/model/op.h"

namespace upscaled {
namespace {

// Kernels compute whole blocks, so a tile's reach depends on where it lies in them: blocks of
// every kernel, in source pixels, divide or are smaller than this.
constexpr int kPhases = 64;
// Two of these fit the phases: a period shows.
constexpr int kMaxRepeatPx = kPhases / 2;
// Far from all sides of an image.
constexpr int kMiddle = 2 * kWholeImageHaloPx;

// A pixel in each phase.
std::vector<TilePlan> PlanPhases(const Executable& executable) {
  std::vector<TilePlan> plans;
  plans.reserve(kPhases);
  for (int at = kMiddle; at < kMiddle + kPhases; ++at) {
    plans.push_back(executable.Plan({at, at, 1, 1}, {2 * kMiddle, 2 * kMiddle}));
  }
  return plans;
}

Halo Even(int px) { return {px, px, px, px}; }

// Widens `halo` to the plan's and by `more_px`.
void Widen(const TilePlan& plan, int more_px, Halo& halo) {
  const Rect &tile = plan.tile, &input = plan.input;
  const auto widen = [&](int& side, int px) {
    side = std::max(side, std::min(px + more_px, kWholeImageHaloPx));
  };
  widen(halo.left_px, tile.x - input.x);
  widen(halo.top_px, tile.y - input.y);
  widen(halo.right_px, input.right() - tile.right());
  widen(halo.bottom_px, input.bottom() - tile.bottom());
}

bool IsMoved(const Rect& from, const Rect& to, int x, int y) {
  return to == Rect{from.x + x, from.y + y, from.width, from.height};
}

// Whether all plans move with their pixel if it moves by `step` pixels: each layer by a number of
// pixels of its own, a multiple of its blocks.
bool RepeatsAfter(const std::vector<TilePlan>& plans, int step) {
  const std::vector<Rect>&first = plans[0].regions, &later = plans[step].regions;
  for (size_t i = 0; i + step < plans.size(); ++i) {
    const TilePlan &from = plans[i], &to = plans[i + step];
    if (!IsMoved(from.input, to.input, step, step)) return false;
    for (size_t layer = 0; layer < first.size(); ++layer) {
      if (!IsMoved(from.regions[layer], to.regions[layer], later[layer].x - first[layer].x,
                   later[layer].y - first[layer].y)) {
        return false;
      }
    }
  }
  return true;
}

int RepeatOf(const std::vector<TilePlan>& plans, int align_px) {
  for (int step = align_px; step <= kMaxRepeatPx; step += align_px) {
    if (RepeatsAfter(plans, step)) return step;
  }
  return 0;
}

// The multiple of an image's sides after padding, before the layers or in them.
int AlignOf(const Network& network) {
  int align_px = network.align_px;
  for (const Layer& layer : network.layers) {
    if (layer.op == Op::kPad) align_px = std::max(align_px, layer.factor);
  }
  return align_px;
}

}  // namespace

bool TilesSeeAll(const Executable& executable, Size image) {
  return ReadsAnywhere(executable.network()) || executable.ComputesWhole(image);
}

Reach ReachOf(const Executable& executable, Size image) {
  if (TilesSeeAll(executable, image)) return {.halo = Even(kWholeImageHaloPx)};
  return ReachOf(executable);
}

Reach ReachOf(const Executable& executable) {
  const std::vector<TilePlan> plans = PlanPhases(executable);
  const Network& network = executable.network();
  const bool pooled = !ListPoolings(network).empty();
  Reach reach;
  // The partial sums' rectangles in pooled layers depend on the image's size.
  const int more_px = pooled ? 2 * AlignOf(network) : 0;
  for (const TilePlan& plan : plans) Widen(plan, more_px, reach.halo);
  const bool local = !pooled && reach.halo_px() < kWholeImageHaloPx;
  if (local) reach.repeat_px = RepeatOf(plans, network.align_px);
  return reach;
}

Reach ReachOf(const CellLattice& cells) {
  return {.halo =
              Even(std::min(std::max(cells.cell().width, cells.cell().height), kWholeImageHaloPx))};
}

Reach TurnedReach(const Reach& reach) {
  return {.halo = Even(reach.halo_px()), .repeat_px = reach.repeat_px};
}

}  // namespace upscaled
