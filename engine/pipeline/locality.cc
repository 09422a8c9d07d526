#include "engine/pipeline/locality.h"

#include <cmath>
#include <numeric>
#include <utility>

#include "engine/base/int_math.h"
#include "engine/model/shapes.h"
#include "engine/pipeline/corrected_pass.h"
#include "engine/pipeline/network_pass.h"
#include "engine/pipeline/reach.h"
#include "engine/pipeline/stages.h"

namespace upscaled {
namespace {

using Margin = Locality::Margin;

// Longer periods are those of no image.
constexpr int kLongestPeriodPx = 4096;

// The multiple of `repeat_px` source pixels by which a side may be longer at the same padding, in
// all layers that pad to a multiple. 0: beyond kLongestPeriodPx.
int PaddedPeriod(const Network& network, int repeat_px) {
  const std::vector<double> densities = LayerDensities(network);
  int64_t period_px = repeat_px;
  for (size_t i = 0; i < network.layers.size(); ++i) {
    const Layer& layer = network.layers[i];
    if (layer.op != Op::kPad && layer.op != Op::kWindowAttention) continue;
    const auto moved_px = static_cast<int>(std::lround(repeat_px * std::sqrt(densities[i])));
    const int64_t repeats = layer.factor / std::gcd(layer.factor, moved_px);
    period_px = std::lcm(period_px, repeat_px * repeats);
    if (period_px > kLongestPeriodPx) return 0;
  }
  return static_cast<int>(period_px);
}

bool Mirrors(const Network& network) {
  return std::ranges::any_of(network.layers, [](const Layer& layer) {
    return layer.op == Op::kPad && layer.pad_mode == PadMode::kReflect;
  });
}

// For each place in `pass.reach.repeat_px`. Turned or mirrored images look as far to both sides
// everywhere.
std::vector<Margin> MarginsOf(const PassSpec& pass) {
  const Executable& executable = *pass.executable;
  const int period_px = pass.reach.repeat_px;
  // Far from all sides of an image.
  const int middle = RoundUp(2 * kWholeImageHaloPx, period_px);
  const int halo_px = pass.reach.halo_px();
  std::vector<Margin> margins(static_cast<size_t>(period_px), {halo_px, halo_px});
  if (pass.tta || Mirrors(executable.network())) return margins;
  for (int i = 0; i < period_px; ++i) {
    const int at = middle + i;
    const Rect input = executable.Plan({at, at, 1, 1}, {2 * middle, 2 * middle}).input;
    margins[static_cast<size_t>(i)] = {at - std::min(input.x, input.y),
                                       std::max(input.right(), input.bottom()) - 1 - at};
  }
  return margins;
}

// The size of the networks' result.
Size NativeSize(const UpscalePlan& plan) {
  Size size = plan.source.size();
  for (const PassSpec& pass : plan.passes) {
    size.width *= pass.executable->network().scale;
    size.height *= pass.executable->network().scale;
  }
  return size;
}

// A network of a plan, and the stage around it.
struct LocalPass {
  Locality network;
  int scale = 1;      // of its source, by the source of the plan
  int border_px = 0;  // that the stage looks beyond the network's own margins
};

Extent Widen(const Extent& extent, int px) { return {extent.begin - px, extent.end + px}; }

// The margin of the pixel at `place`, through all passes.
Margin MarginAt(int place, const std::vector<LocalPass>& passes, int border_px) {
  Extent extent{place * passes.back().scale, (place + 1) * passes.back().scale};
  for (size_t i = passes.size(); i-- > 0;) {
    extent = passes[i].network.InputOf(Widen(extent, passes[i].border_px));
    if (i == 0) break;
    const int enlarged = passes[i].scale / passes[i - 1].scale;
    extent = {FloorDiv(extent.begin, enlarged), CeilDiv(extent.end, enlarged)};
  }
  extent = Widen(extent, border_px);
  return {place - extent.begin, extent.end - 1 - place};
}

}  // namespace

Locality::Locality(std::vector<Margin> margins) : margins_(std::move(margins)) {
  for (const Margin& margin : margins_) {
    before_px_ = std::max(before_px_, margin.before_px);
    behind_px_ = std::max(behind_px_, margin.behind_px);
  }
}

double Locality::mean_margin_px() const {
  double sum_px = 0;
  for (const Margin& margin : margins_) sum_px += margin.before_px + margin.behind_px;
  return sum_px / period_px();
}

const Margin& Locality::At(int pixel) const {
  return margins_[static_cast<size_t>(pixel - FloorDiv(pixel, period_px()) * period_px())];
}

Extent Locality::InputOf(const Extent& pixels) const {
  const int last = pixels.end - 1;
  return {pixels.begin - At(pixels.begin).before_px, last + At(last).behind_px + 1};
}

Extent Locality::DependentsOf(const Extent& source) const {
  int first = source.begin - behind_px_, last = source.end - 1 + before_px_;
  while (first + At(first).behind_px < source.begin) ++first;
  while (last - At(last).before_px >= source.end) --last;
  return {first, last + 1};
}

UpscalePlan LocalPart(UpscalePlan plan) {
  // The margins of a wrapped source are cut off in the last resize.
  if (plan.passes.empty() || plan.wrap_px > 0 || plan.result.size() == NativeSize(plan))
    return plan;
  plan.result = PassResult(plan.passes.back());
  plan.stages = PlanStages(plan);
  return plan;
}

std::optional<UpscalePlan> NetworkPart(const UpscalePlan& local) {
  if (local.passes.size() != 1 || local.stages.size() != 1 || local.passes[0].computes_alpha)
    return std::nullopt;
  UpscalePlan network = local;
  PassSpec& pass = network.passes[0];
  network.result = UncorrectedResult(pass);
  pass.result_type = network.options.result_type = network.result.type;
  pass.keeps_colours = network.options.keep_colours = false;
  pass.corrects = network.options.corrects = false;
  network.stages = PlanStages(network);
  return network;
}

bool ReachAsFar(const std::vector<Stage>& some, const std::vector<Stage>& others) {
  return std::ranges::equal(some, others, [](const Stage& a, const Stage& b) {
    return a.border_px == b.border_px || std::max(a.border_px, b.border_px) >= kWholeImageHaloPx;
  });
}

Locality LocalityOf(const UpscalePlan& plan) {
  if (plan.passes.empty() || plan.wrap_px > 0) return {};
  UpscalePlan local = plan;
  std::vector<LocalPass> passes;
  int period_px = 1, scale = 1;  // of the source; from the source to the pass
  for (PassSpec& pass : local.passes) {
    if (pass.cells) return {};
    pass.reach = ReachOf(*pass.executable);
    if (pass.reach.repeat_px == 0) return {};
    const Network& network = pass.executable->network();
    const int repeat_px = PaddedPeriod(network, pass.reach.repeat_px);
    if (repeat_px == 0 ||
        int64_t{period_px} * repeat_px > kLongestPeriodPx * int64_t{kLongestPeriodPx})
      return {};
    period_px = std::lcm(period_px, repeat_px / std::gcd(repeat_px, scale));
    if (period_px > kLongestPeriodPx) return {};
    passes.push_back({.network = Locality(MarginsOf(pass)), .scale = scale});
    scale *= network.scale;
    if (pass.tta) pass.reach = TurnedReach(pass.reach);
  }
  const std::vector<Stage> stages = PlanStages(local);
  if (!ReachAsFar(stages, plan.stages)) return {};
  // Without the networks' halos and a last conversion: how far all else in the passes looks.
  for (PassSpec& pass : local.passes) pass.reach.halo = {};
  local.result = PassResult(local.passes.back());
  const std::vector<Stage> bare = PlanStages(local);
  const size_t before = bare.size() - passes.size();
  for (size_t i = 0; i < passes.size(); ++i) passes[i].border_px = bare[before + i].border_px;
  int border_px = 0;
  for (size_t i = 0; i < before; ++i) border_px += stages[i].border_px;
  std::vector<Margin> margins;
  for (int place = 0; place < period_px; ++place)
    margins.push_back(MarginAt(place, passes, border_px));
  return Locality(std::move(margins));
}

}  // namespace upscaled
