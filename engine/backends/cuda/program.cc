#include "engine/backends/cuda/program.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <span>

#include "engine/backends/cuda/kernels/fused_conv.h"
#include "engine/graph/buffer_slots.h"
#include "engine/graph/inner_tile.h"
#include "engine/graph/pooling.h"
#include "engine/graph/tile_plan.h"
#include "engine/model/shapes.h"
#include "engine/model/without_weights.h"

namespace upscaled::cuda {
namespace {

// Finds, from the last layer to the first, which layers a step ends at.
class StepFinder {
 public:
  StepFinder(const Network& network, bool (*first_conv)(const Layer& conv))
      : network_(network), first_conv_(first_conv), consumers_(network.layers.size()) {
    for (const Layer& layer : network.layers) {
      for (const int input : layer.inputs) ++consumers_[input];
    }
    // A pooling gathers its input in runs of their own.
    for (const int pooling : ListPoolings(network)) ++consumers_[At(pooling).inputs[0]];
  }

  std::vector<Step> Find() {
    std::vector<bool> needed(network_.layers.size());
    needed.back() = true;
    for (const int pooling : ListPoolings(network_)) needed[pooling] = true;
    std::vector<Step> steps;
    for (int i = static_cast<int>(needed.size()) - 1; i >= 0; --i) {
      if (!needed[i]) continue;
      const Step& step = steps.emplace_back(StepOf(i));
      for (const int input : step.inputs) needed[input] = true;
      if (step.residual >= 0) needed[step.residual] = true;
      if (step.kind == Step::Kind::kLoadMeans) needed[At(i).inputs[0]] = true;
    }
    std::reverse(steps.begin(), steps.end());
    return steps;
  }

 private:
  const Layer& At(int index) const { return network_.layers[index]; }
  // Nothing but the one layer that fuses it reads it.
  bool IsInner(int index) const { return consumers_[index] == 1; }
  bool IsPlain(int index, Op op) const {
    return At(index).op == op && At(index).activation == Activation::kNone;
  }

  Step StepOf(int index) const {
    const Layer& layer = At(index);
    if (layer.op == Op::kInput) return {.kind = Step::Kind::kLoadPixels, .layer = index};
    if (layer.op == Op::kGlobalAveragePool) {
      return {.kind = Step::Kind::kLoadMeans, .layer = index};
    }
    if (const auto step = FirstConv(index)) return *step;
    if (const auto step = Sum(index)) return *step;
    if (const auto step = Conv(index)) return *step;
    return {.kind = Step::Kind::kElementwise, .layer = index, .inputs = layer.inputs};
  }

  std::optional<Step> FirstConv(int index) const {
    const Layer& conv = At(index);
    if (conv.op != Op::kConv || !first_conv_(conv)) return std::nullopt;
    Step step{.kind = Step::Kind::kFirstConv, .layer = index, .conv = index};
    int source = conv.inputs[0];
    if (IsPlain(source, Op::kResizeNearest)) {
      step.resize_factor = At(source).factor;
      source = At(source).inputs[0];
    }
    if (At(source).op != Op::kInput) return std::nullopt;
    return step;
  }

  // A convolution, whose result may be shuffled.
  std::optional<Step> Conv(int index) const {
    Step step{.kind = Step::Kind::kConv, .layer = index, .conv = index};
    if (At(index).op == Op::kPixelShuffle && IsInner(At(index).inputs[0])) {
      step.shuffle = index;
      step.conv = At(index).inputs[0];
    }
    const Layer* const shuffle = step.shuffle < 0 ? nullptr : &At(step.shuffle);
    if (!IsFusable({&At(step.conv), shuffle})) return std::nullopt;
    step.inputs = At(step.conv).inputs;
    return step;
  }

  // A sum, one part of which is a convolution that nothing else reads: the later one, if both are.
  std::optional<Step> Sum(int index) const {
    if (!IsPlain(index, Op::kAdd)) return std::nullopt;
    const auto [earlier, later] = std::minmax(At(index).inputs[0], At(index).inputs[1]);
    for (const int part : {later, earlier}) {
      if (!IsInner(part)) continue;
      std::optional<Step> step = Conv(part);
      if (!step.has_value()) continue;
      step->layer = index;
      step->residual = part == later ? earlier : later;
      if (IsPlain(step->residual, Op::kResizeNearest)) {
        step->residual_factor = At(step->residual).factor;
        step->residual = At(step->residual).inputs[0];
      } else if (IsPlain(step->residual, Op::kCrop)) {
        step->residual_crop_px = At(step->residual).crop_px;
        step->residual = At(step->residual).inputs[0];
      }
      return step;
    }
    return std::nullopt;
  }

  const Network& network_;
  bool (*const first_conv_)(const Layer& conv);
  std::vector<int> consumers_;
};

// Gives homes to the results of steps; what a concatenation needs no copy for loses its step.
class HomeFinder {
 public:
  explicit HomeFinder(Program& program) : program_(program) {
    program_.homes.resize(program.network.layers.size());
  }

  // From the last to the first: larger concatenations before those that they contain.
  void Find() {
    std::vector<Step>& steps = program_.steps;
    for (size_t i = steps.size(); i-- > 0;) {
      const bool is_free = Unite(steps[i]);
      const bool is_stored = !(program_.writes_samples && i + 1 == steps.size());
      if (program_.homes[steps[i].layer].root < 0 && is_stored) AddRoot(steps[i].layer);
      if (is_free) steps.erase(steps.begin() + static_cast<ptrdiff_t>(i));
    }
  }

 private:
  const Layer& At(int index) const { return program_.network.layers[index]; }

  void AddRoot(int layer) {
    program_.homes[layer] = {static_cast<int>(program_.roots.size()), 0};
    program_.roots.push_back({PlaneCount(At(layer).out_channels)});
  }

  // Whether the step is a concatenation whose inputs lie, or can be put, one behind the other.
  bool Unite(const Step& step) {
    const Layer& layer = At(step.layer);
    if (layer.op != Op::kConcat || layer.activation != Activation::kNone) return false;
    std::vector<Home>& homes = program_.homes;
    std::vector<int> planes;  // of each input, in the result
    int channels = 0;
    for (const int input : step.inputs) {
      if (channels % kPlaneChannels != 0) return false;
      planes.push_back(channels / kPlaneChannels);
      channels += At(input).out_channels;
    }
    const auto all = [&](auto&& holds) {
      for (size_t i = 0; i < planes.size(); ++i) {
        if (!holds(homes[step.inputs[i]], planes[i])) return false;
      }
      return true;
    };
    Home& own = homes[step.layer];
    if (all([](const Home& home, int) { return home.root < 0; }) && !HasRepeated(step.inputs)) {
      if (own.root < 0) AddRoot(step.layer);
      for (size_t i = 0; i < planes.size(); ++i) {
        homes[step.inputs[i]] = {own.root, own.first_plane + planes[i]};
      }
      return true;
    }
    const Home first = homes[step.inputs[0]];
    if (own.root >= 0 || first.root < 0 || !all([&](const Home& home, int plane) {
          return home.root == first.root && home.first_plane == first.first_plane + plane;
        })) {
      return false;
    }
    own = first;
    return true;
  }

  static bool HasRepeated(std::vector<int> values) {
    std::sort(values.begin(), values.end());
    return std::adjacent_find(values.begin(), values.end()) != values.end();
  }

  Program& program_;
};

// Layers look the same from places this many pixels apart.
int PeriodOf(const Network& network) {
  int period_px = network.align_px;
  for (const Layer& layer : network.layers) {
    if (layer.op == Op::kConv) period_px *= layer.stride_px;
  }
  return period_px;
}

// How far around an inner tile its source reaches at most.
int ReachOf(const Network& network) {
  const InnerTile inner({kMaxPeriodPx, kMaxPeriodPx});
  const Rect& tile = inner.rect;
  const Rect source = PlanTile(network, inner.image, tile).input;
  return std::max({tile.x - source.x, tile.y - source.y, source.right() - tile.right(),
                   source.bottom() - tile.bottom()});
}

// From the first step that writes into a root to the last that reads from it.
void AssignRoots(Program& program) {
  const int end = static_cast<int>(program.steps.size());
  std::vector<Lifetime> lifetimes(program.roots.size(), {end, -1});
  const auto use = [&](int layer, int step) {
    if (program.homes[layer].root < 0) return;
    Lifetime& lifetime = lifetimes[program.homes[layer].root];
    lifetime = {std::min(lifetime.first, step), std::max(lifetime.last, step)};
  };
  for (int i = 0; i < end; ++i) {
    const Step& step = program.steps[i];
    use(step.layer, i);
    for (const int input : step.inputs) use(input, i);
    if (step.residual >= 0) use(step.residual, i);
    // Up to here its pooling's own run gathers it.
    if (step.kind == Step::Kind::kLoadMeans) use(program.network.layers[step.layer].inputs[0], i);
  }
  use(static_cast<int>(program.network.layers.size()) - 1, end);
  // AssignSlots takes them in order of their first steps.
  std::vector<int> order(lifetimes.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](int a, int b) { return lifetimes[a].first < lifetimes[b].first; });
  std::vector<Lifetime> ordered;
  for (const int root : order) ordered.push_back(lifetimes[root]);
  const std::vector<int> slots = AssignSlots(ordered);
  for (size_t i = 0; i < order.size(); ++i) {
    program.roots[order[i]].slot = slots[i];
    program.slots = std::max(program.slots, slots[i] + 1);
  }
}

}  // namespace

Program BuildProgram(const Network& network, bool (*first_conv)(const Layer& conv)) {
  Program program;
  program.network = WithoutWeights(network);
  program.steps = StepFinder(program.network, first_conv).Find();
  program.poolings = ListPoolings(network);
  program.per_image = IsPerImage(network);
  program.writes_samples = program.steps.back().kind == Step::Kind::kConv;
  program.period_px = PeriodOf(network);
  program.reach_px = ReachOf(network);
  HomeFinder(program).Find();
  AssignRoots(program);
  return program;
}

}  // namespace upscaled::cuda
