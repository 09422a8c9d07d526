#include "engine/backends/cuda/program.h"

#include <algorithm>
#include <utility>

#include "engine/backends/cuda/kernels/tensor_view.h"
#include "engine/graph/inner_tile.h"
#include "engine/graph/tile_geometry.h"
#include "engine/graph/tile_plan.h"
#include "engine/model/shapes.h"

namespace upscaled::cuda {
namespace {

// Places the results of nodes; a concatenation without a copy loses its node.
class Placer {
 public:
  explicit Placer(Program& program) : program_(program) {
    program_.placements.resize(program.network.layers.size());
  }

  // From the last to the first: larger concatenations before the ones inside them.
  void Place() {
    std::vector<Node>& nodes = program_.nodes;
    for (size_t i = nodes.size(); i-- > 0;) {
      const bool is_free = Unite(nodes[i]);
      const bool is_stored = !(program_.writes_samples && i + 1 == nodes.size());
      const int layer = nodes[i].layer();
      if (program_.placements[layer].allocation < 0 && is_stored) Allocate(layer);
      if (is_free) nodes.erase(nodes.begin() + static_cast<ptrdiff_t>(i));
    }
  }

 private:
  const Layer& At(int index) const { return program_.network.layers[index]; }

  void Allocate(int layer) {
    program_.placements[layer] = {static_cast<int>(program_.allocations.size()), 0};
    program_.allocations.push_back({PlaneCount(At(layer).out_channels)});
  }

  // Whether the node is a concatenation with inputs one behind the other, or free to be put there.
  bool Unite(const Node& node) {
    const Layer& layer = At(node.layer());
    if (layer.op != Op::kConcat || layer.activation != Activation::kNone) return false;
    std::vector<Placement>& placements = program_.placements;
    std::vector<int> planes;  // the planes of each input, in the result
    int channels = 0;
    for (const int input : node.inputs) {
      if (channels % kPlaneChannels != 0) return false;
      planes.push_back(channels / kPlaneChannels);
      channels += At(input).out_channels;
    }
    const auto all = [&](auto&& holds) {
      for (size_t i = 0; i < planes.size(); ++i) {
        if (!holds(placements[node.inputs[i]], planes[i])) return false;
      }
      return true;
    };
    Placement& own = placements[node.layer()];
    if (all([](const Placement& place, int) { return place.allocation < 0; }) &&
        !HasRepeated(node.inputs)) {
      if (own.allocation < 0) Allocate(node.layer());
      for (size_t i = 0; i < planes.size(); ++i) {
        placements[node.inputs[i]] = {own.allocation, own.first_plane + planes[i]};
      }
      return true;
    }
    const Placement first = placements[node.inputs[0]];
    if (own.allocation >= 0 || first.allocation < 0 || !all([&](const Placement& place, int plane) {
          return place.allocation == first.allocation &&
                 place.first_plane == first.first_plane + plane;
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

// Layers and their blocks look the same from places this many pixels apart.
int PeriodOf(const Network& network, const std::vector<int>& block_px) {
  const int block = block_px.empty() ? 1 : std::ranges::max(block_px);
  int period_px = network.align_px * block;
  for (const Layer& layer : network.layers) {
    if (layer.op == Op::kConv || layer.op == Op::kGroupedConv) period_px *= layer.stride_px;
  }
  return period_px;
}

// How far around an inner tile its source reaches at most.
int ReachOf(const Network& network, const std::vector<int>& block_px) {
  const InnerTile inner({kMaxPeriodPx, kMaxPeriodPx});
  const Rect& tile = inner.rect;
  const Rect source = PlanTile(network, inner.image, tile, block_px).input;
  return std::max({tile.x - source.x, tile.y - source.y, source.right() - tile.right(),
                   source.bottom() - tile.bottom()});
}

void AssignAllocations(Program& program) {
  std::vector<int> allocation_of;
  for (const Placement& place : program.placements) allocation_of.push_back(place.allocation);
  const std::vector<int> slots = AssignSlots(program, allocation_of);
  for (size_t i = 0; i < slots.size(); ++i) {
    program.allocations[i].slot = slots[i];
    program.slots = std::max(program.slots, slots[i] + 1);
  }
}

}  // namespace

NodeKind KindOf(const Network& network, const Node& node) {
  switch (network.layers[node.main].op) {
    case Op::kInput:
      return NodeKind::kLoadPixels;
    case Op::kGlobalAveragePool:
      return NodeKind::kLoadMeans;
    case Op::kConv:
    case Op::kGroupedConv:
    case Op::kConvTranspose:
    case Op::kFullyConnected:
      return node.reads_image ? NodeKind::kFirstConv : NodeKind::kConv;
    default:
      return NodeKind::kElementwise;
  }
}

TilePlan PlanTile(const Program& program, Size image, const Rect& tile) {
  TilePlan plan = PlanTile(program.network, image, tile, program.block_px);
  plan.regions.back() = Scale(tile, program.network.scale);
  return plan;
}

Program BuildProgram(NetworkPlan plan, std::vector<int> block_px) {
  Program program;
  static_cast<NetworkPlan&>(program) = std::move(plan);
  const Network& network = program.network;
  program.per_image = IsPerImage(network);
  program.writes_samples = KindOf(network, program.nodes.back()) == NodeKind::kConv;
  program.period_px = PeriodOf(network, block_px);
  program.reach_px = ReachOf(network, block_px);
  program.block_px = std::move(block_px);
  Placer(program).Place();
  for (const Node& node : program.nodes) program.kinds.push_back(KindOf(network, node));
  AssignAllocations(program);
  return program;
}

}  // namespace upscaled::cuda
