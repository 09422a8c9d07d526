#include "engine/graph/network_plan.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "engine/graph/buffer_slots.h"
#include "engine/graph/pooling.h"
#include "engine/graph/weight_budget.h"
#include "engine/model/shapes.h"
#include "engine/model/without_weights.h"

namespace upscaled {
namespace {

// Finds the nodes' last layers, from the last layer to the first.
class NodeFinder {
 public:
  NodeFinder(const Network& network, const KernelSet& kernels, const KernelInfo* forced,
             KernelChooser* chooser)
      : layers_(network.layers),
        kernels_(kernels),
        forced_(forced),
        chooser_(chooser),
        consumers_(layers_.size()),
        per_image_(IsPerImage(network)),
        choices_(layers_.size()) {
    for (const Layer& layer : layers_) {
      for (const int input : layer.inputs) ++consumers_[input];
    }
  }

  // UNIMPLEMENTED names the first unsupported layer.
  absl::StatusOr<std::vector<Node>> Find(const std::vector<int>& poolings) {
    std::vector<bool> needed(layers_.size());
    needed.back() = true;
    for (const int pooling : poolings) needed[pooling] = true;
    std::vector<Node> nodes;
    absl::Status first_error;
    for (int i = static_cast<int>(needed.size()) - 1; i >= 0; --i) {
      if (!needed[i]) continue;
      absl::StatusOr<Node> node = NodeOf(i);
      if (!node.ok()) first_error = node.status();
      for (const int read : node.ok() ? node->Reads() : layers_[i].inputs) needed[read] = true;
      if (node.ok()) nodes.push_back(*std::move(node));
    }
    RETURN_IF_ERROR(first_error);
    std::reverse(nodes.begin(), nodes.end());
    FoldGates(nodes);
    return nodes;
  }

 private:
  // Only the fusing layer reads it.
  bool IsInner(int index) const { return consumers_[index] == 1; }
  bool IsPlain(int index, Op op) const {
    return layers_[index].op == op && layers_[index].activation == Activation::kNone;
  }
  unsigned FusesOf(const Node& node) const {
    return kernels_.Fuses(*node.kernel.info, layers_[node.main]);
  }

  absl::StatusOr<Node> NodeOf(int index) {
    const Op op = layers_[index].op;
    if (op == Op::kInput) return Node{.layers = {index}, .main = index};
    if (op == Op::kGlobalAveragePool) return Pooling(index);
    if (std::optional<Node> node = ReadingImage(index)) return *std::move(node);
    if (op == Op::kAdd) return Sum(index);
    return Computed(index);
  }

  Node Pooling(int index) const {
    Node node{.layers = {index}, .main = index, .inputs = layers_[index].inputs};
    const auto choices = RankKernels(kernels_, {&layers_[index]}, forced_);
    if (!choices.empty()) node.kernel = choices.front();
    return node;
  }

  std::optional<Node> ReadingImage(int index) const {
    if (layers_[index].op != Op::kConv) return std::nullopt;
    Node node{.layers = {index}, .main = index, .reads_image = true};
    int source = layers_[index].inputs[0];
    if (IsPlain(source, Op::kResizeNearest)) {
      node.resize_factor = layers_[source].factor;
      node.layers = {source, index};
      source = layers_[source].inputs[0];
    }
    if (layers_[source].op != Op::kInput) return std::nullopt;
    const auto choices =
        RankKernels(kernels_, {.main = &layers_[index], .reads_image = true}, forced_);
    if (choices.empty()) return std::nullopt;
    node.kernel = choices.front();
    return node;
  }

  // A pixel shuffle for the convolution before it; the activation is in one of the two.
  bool IsFusableShuffle(int index) const {
    if (layers_[index].op != Op::kPixelShuffle) return false;
    const int input = layers_[index].inputs[0];
    return layers_[input].op == Op::kConv && IsInner(input) &&
           (layers_[input].activation == Activation::kNone ||
            layers_[index].activation == Activation::kNone);
  }

  // A layer, with the convolution before it if it is a shuffle.
  absl::StatusOr<Node> Computed(int index) {
    if (IsFusableShuffle(index)) {
      const int conv = layers_[index].inputs[0];
      const FusedLayers fused{
          .main = &layers_[conv], .shuffle = &layers_[index], .per_image = per_image_[index]};
      if (!RankKernels(kernels_, fused, forced_).empty()) {
        Node node{.layers = {conv, index}, .main = conv, .shuffle = index};
        node.inputs = layers_[conv].inputs;
        ASSIGN_OR_RETURN(node.kernel, Choose(index, fused));
        return node;
      }
    }
    Node node{.layers = {index}, .main = index, .inputs = layers_[index].inputs};
    ASSIGN_OR_RETURN(node.kernel,
                     Choose(index, {.main = &layers_[index], .per_image = per_image_[index]}));
    return node;
  }

  // Asked once for each possible last layer of a node.
  absl::StatusOr<KernelChoice> Choose(int index, const FusedLayers& fused) {
    std::optional<KernelChoice>& choice = choices_[index];
    if (!choice.has_value()) {
      ASSIGN_OR_RETURN(choice, ChooseKernel(kernels_, fused, forced_, chooser_));
    }
    return *choice;
  }

  // With the part to add the other one to its result, if there is one.
  absl::StatusOr<Node> Sum(int index) {
    // A crop comes second; without a crop, the earlier layer does.
    int first = layers_[index].inputs[0], second = layers_[index].inputs[1];
    if (!IsPlain(second, Op::kCrop) && (IsPlain(first, Op::kCrop) || first < second)) {
      std::swap(first, second);
    }
    const FusedLayers own{.main = &layers_[index], .per_image = per_image_[index]};
    const bool is_forced = forced_ != nullptr && kernels_.Supports(*forced_, own);
    if (layers_[index].activation == Activation::kNone && !is_forced) {
      for (const auto& [part, other] : {std::pair(first, second), std::pair(second, first)}) {
        if (!IsInner(part) || !IsComputed(part)) continue;
        ASSIGN_OR_RETURN(Node node, Computed(part));
        const unsigned fuses = FusesOf(node);
        if ((fuses & kFuseAdd) == 0) continue;
        SetResidual(other, fuses, node);
        node.layers.push_back(index);
        return node;
      }
    }
    Node node{.layers = {index}, .main = index, .inputs = {first, second}};
    ASSIGN_OR_RETURN(node.kernel, Choose(index, own));
    if (IsPlain(second, Op::kCrop) && (FusesOf(node) & kFuseCrop) != 0) {
      node.inputs = {first};
      node.layers.clear();
      SetResidual(second, kFuseCrop, node);
      node.layers.push_back(index);
    }
    return node;
  }

  bool IsComputed(int index) const {
    return layers_[index].op != Op::kInput && layers_[index].op != Op::kGlobalAveragePool;
  }

  void SetResidual(int added, unsigned fuses, Node& node) const {
    const auto read_through = [&](Fusion fusion, Op op) -> const Layer* {
      if ((fuses & fusion) == 0 || !IsPlain(added, op)) return nullptr;
      node.layers.push_back(added);
      return &layers_[std::exchange(added, layers_[added].inputs[0])];
    };
    const Layer* const resize = read_through(kFuseResize, Op::kResizeNearest);
    const Layer* const crop = read_through(kFuseCrop, Op::kCrop);
    if (resize != nullptr) node.residual_factor = resize->factor;
    if (crop != nullptr) node.residual_crop_px = crop->crop_px;
    node.residual = added;
  }

  // A gate multiplies a layer by a factor per channel of the image, as squeeze-excites do.
  bool IsGate(const Node& node) const {
    const int index = node.layer();
    const std::vector<int>& inputs = layers_[index].inputs;
    return node.main == index && IsPlain(index, Op::kMul) && !per_image_[inputs[0]] &&
           per_image_[inputs[1]] && index + 1 < static_cast<int>(layers_.size());
  }
  bool TakesGate(const Node& node, int gate) const {
    const bool reads = std::ranges::find(node.inputs, gate) != node.inputs.end();
    if (!reads && node.residual != gate) return true;
    return node.kernel.info != nullptr && (FusesOf(node) & kFuseGate) != 0 &&
           (!reads || node.inputs.size() == 1);
  }

  // Leaves a gate to the nodes that read it, if all of them can multiply by its factors.
  void FoldGates(std::vector<Node>& nodes) const {
    for (size_t i = nodes.size(); i-- > 0;) {
      const int gate = nodes[i].layer();
      if (!IsGate(nodes[i]) ||
          !std::ranges::all_of(nodes, [&](const Node& n) { return TakesGate(n, gate); })) {
        continue;
      }
      const int gated = layers_[gate].inputs[0], factors = layers_[gate].inputs[1];
      for (Node& node : nodes) {
        if (node.residual == gate) {
          node.residual = gated;
          node.residual_gate = factors;
        }
        if (!node.inputs.empty() && node.inputs[0] == gate) {
          node.inputs[0] = gated;
          node.gate = factors;
        }
      }
      nodes.erase(nodes.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }

  const std::vector<Layer>& layers_;
  const KernelSet& kernels_;
  const KernelInfo* const forced_;
  KernelChooser* const chooser_;
  std::vector<int> consumers_;
  const std::vector<bool> per_image_;
  std::vector<std::optional<KernelChoice>> choices_;
};

absl::Status CheckForcedIsUsed(const std::vector<Node>& nodes, const KernelInfo* forced) {
  const bool used =
      forced == nullptr || std::any_of(nodes.begin(), nodes.end(),
                                       [&](const Node& n) { return n.kernel.info == forced; });
  if (used) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat("kernel '", ToAbsl(forced->name), "' supports no layer of the network"));
}

}  // namespace

std::vector<int> Node::Reads() const {
  std::vector<int> reads = inputs;
  for (const int read : {residual, gate, residual_gate}) {
    if (read >= 0) reads.push_back(read);
  }
  return reads;
}

absl::StatusOr<NetworkPlan> PlanNetwork(const Network& network, const KernelSet& kernels,
                                        const KernelInfo* forced, KernelChooser* chooser) {
  NetworkPlan plan{.network = WithoutWeights(network), .poolings = ListPoolings(network)};
  const auto find = [&](KernelChooser* asked) {
    return NodeFinder(network, kernels, forced, asked).Find(plan.poolings);
  };
  ASSIGN_OR_RETURN(plan.nodes, find(nullptr));  // refused before anything is measured
  for (const Layer& layer : network.layers) {
    RETURN_IF_ERROR(WeightBudget().Check(layer, kernels.PackedBytesBound(layer)));
  }
  if (chooser != nullptr) {
    ASSIGN_OR_RETURN(plan.nodes, find(chooser));
  }
  RETURN_IF_ERROR(CheckForcedIsUsed(plan.nodes, forced));
  return plan;
}

Layer FusedLayer(const Network& network, const Node& node) {
  UPSCALED_CHECK(node.shuffle < 0 && !node.reads_image);
  Layer layer = network.layers[node.main];
  layer.name = absl::StrJoin(node.layers, "+", [&](std::string* out, int covered) {
    out->append(network.layers[covered].name);
  });
  layer.inputs = node.Reads();
  if (node.residual >= 0) {
    layer.crop_px = node.residual_crop_px;
    layer.residual_factor = node.residual_factor;
  }
  return layer;
}

std::vector<int> AssignSlots(const NetworkPlan& plan, std::span<const int> allocation_of) {
  const int end = static_cast<int>(plan.nodes.size());
  const auto count =
      static_cast<size_t>(*std::max_element(allocation_of.begin(), allocation_of.end()) + 1);
  std::vector<Lifetime> lifetimes(count, {end, -1});
  const auto use = [&](int layer, int node) {
    if (allocation_of[layer] < 0) return;
    Lifetime& lifetime = lifetimes[allocation_of[layer]];
    lifetime = {std::min(lifetime.first, node), std::max(lifetime.last, node)};
  };
  for (int i = 0; i < end; ++i) {
    use(plan.nodes[i].layer(), i);
    for (const int read : plan.nodes[i].Reads()) use(read, i);
  }
  use(static_cast<int>(allocation_of.size()) - 1, end);
  // In order of their first nodes.
  std::vector<int> order(count);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return lifetimes[a].first < lifetimes[b].first; });
  std::vector<Lifetime> ordered;
  for (const int allocation : order) ordered.push_back(lifetimes[allocation]);
  const std::vector<int> ordered_slots = AssignSlots(ordered);
  std::vector<int> slots(count);
  for (size_t i = 0; i < count; ++i) slots[order[i]] = ordered_slots[i];
  return slots;
}

}  // namespace upscaled
