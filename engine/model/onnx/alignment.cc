#include "engine/model/onnx/alignment.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

#include "engine/model/onnx/tensor.h"

namespace upscaled::onnx {
namespace {

using Ints = std::vector<int64_t>;

constexpr int kBefore = std::size(kBeforeAligned), kBehind = std::size(kBehindAligned);

// The graph's nodes by their places, all of which are there.
class Matcher {
 public:
  explicit Matcher(const GraphProto& graph)
      : graph_(graph), behind_(graph.node_size() - kBehind), image_(graph.node(0).input(0)) {}

  std::optional<Alignment> Match() const {
    const Ints align = Constant(3, 1), pad = Constant(4, 1), scale = Constant(behind_, 1);
    const bool plain = IsTwice(align) && IsTwice(pad) && IsTwice(scale) && align[0] > 0;
    if (!plain || !ConnectsBefore() || !ConnectsBehind()) return std::nullopt;
    const int64_t p = pad[0];
    const bool same =
        Constant(1, 1) == Ints{2} && Constant(1, 2) == Ints{4} &&
        Constant(2, 0) == Ints{-2 * p, -2 * p} && Constant(5, 0) == Ints{0, 0, p, p, 0, 0} &&
        Constant(behind_ + 1, 1) == Ints{0, 0} && Constant(behind_ + 1, 3) == Ints{2, 3} &&
        IntAttribute(5, "axis") == 0 && StringAttribute(6, "mode") == "edge";
    if (!same) return std::nullopt;
    return Alignment{.pad_px = p, .align_px = align[0], .scale = scale[0]};
  }

 private:
  static bool IsTwice(const Ints& values) { return values.size() == 2 && values[0] == values[1]; }

  std::string Input(int node, int i) const {
    const NodeProto& proto = graph_.node(node);
    return i < proto.input_size() ? proto.input(i) : "";
  }
  std::string Output(int node) const {
    const NodeProto& proto = graph_.node(node);
    return proto.output_size() == 1 ? proto.output(0) : "";
  }
  // Empty: it is none.
  Ints Constant(int node, int i) const {
    const std::string name = Input(node, i);
    for (const TensorProto& tensor : graph_.initializer()) {
      if (tensor.name() == name) return ReadInts(tensor).value_or(Ints());
    }
    return {};
  }
  const AttributeProto* Attribute(int node, const char* name) const {
    const auto& attributes = graph_.node(node).attribute();
    const auto found = std::find_if(attributes.begin(), attributes.end(),
                                    [&](const AttributeProto& a) { return a.name() == name; });
    return found == attributes.end() ? nullptr : &*found;
  }
  std::optional<int64_t> IntAttribute(int node, const char* name) const {
    const AttributeProto* attribute = Attribute(node, name);
    return attribute == nullptr ? std::nullopt : std::optional<int64_t>(attribute->i());
  }
  std::string StringAttribute(int node, const char* name) const {
    const AttributeProto* attribute = Attribute(node, name);
    return attribute == nullptr ? "" : attribute->s();
  }

  bool ConnectsBefore() const {
    return Input(1, 0) == Output(0) && Input(2, 1) == Output(1) && Input(3, 0) == Output(2) &&
           Input(4, 0) == Output(3) && Input(5, 1) == Output(4) && Input(6, 0) == image_ &&
           Input(6, 1) == Output(5) && !Output(6).empty();
  }
  // And nothing between reads more than the padded image.
  bool ConnectsBehind() const {
    for (int node = kBefore; node < behind_; ++node) {
      for (const std::string& input : graph_.node(node).input()) {
        if (input == image_) return false;
        for (int before = 0; before < kBefore - 1; ++before) {
          if (input == Output(before)) return false;
        }
      }
    }
    return Input(behind_, 0) == Output(1) && Input(behind_ + 1, 2) == Output(behind_) &&
           graph_.output_size() == 1 && graph_.output(0).name() == Output(behind_ + 1);
  }

  const GraphProto& graph_;
  const int behind_;  // the first node there
  const std::string image_;
};

bool HasTheNodes(const GraphProto& graph) {
  const auto is = [](const NodeProto& node, const char* op) { return node.op_type() == op; };
  return graph.node_size() > kBefore + kBehind && graph.node(0).input_size() == 1 &&
         std::equal(std::begin(kBeforeAligned), std::end(kBeforeAligned), graph.node().begin(),
                    [&](const char* op, const NodeProto& node) { return is(node, op); }) &&
         std::equal(std::begin(kBehindAligned), std::end(kBehindAligned),
                    graph.node().end() - kBehind,
                    [&](const char* op, const NodeProto& node) { return is(node, op); });
}

}  // namespace

std::optional<Alignment> TakeAlignment(GraphProto& graph) {
  if (!HasTheNodes(graph)) return std::nullopt;
  const std::optional<Alignment> alignment = Matcher(graph).Match();
  if (!alignment) return std::nullopt;
  const std::string image = graph.node(0).input(0), padded = graph.node(kBefore - 1).output(0);
  *graph.mutable_output(0)->mutable_name() = graph.node(graph.node_size() - 1).input(0);
  auto& nodes = *graph.mutable_node();
  nodes.DeleteSubrange(nodes.size() - kBehind, kBehind);
  nodes.DeleteSubrange(0, kBefore);
  for (NodeProto& node : nodes) {
    for (std::string& input : *node.mutable_input()) {
      if (input == padded) input = image;
    }
  }
  return alignment;
}

}  // namespace upscaled::onnx
