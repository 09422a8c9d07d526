#include "engine/model/onnx/node_index.h"

#include <algorithm>
#include <cmath>

#include "engine/model/onnx/tensor.h"

namespace upscaled::onnx {
namespace {

// No value is copied more often, so a hostile file costs no more.
constexpr int kMaxCopies = 6;

bool CastsToFloat(const NodeProto& node) {
  const AttributeProto* to = NodeIndex::Attribute(node, "to");
  return to != nullptr && IsFloatType(static_cast<int>(to->i()));
}

}  // namespace

NodeIndex::NodeIndex(const GraphProto& graph) {
  for (const TensorProto& tensor : graph.initializer()) constants_[tensor.name()] = &tensor;
  for (const NodeProto& node : graph.node()) {
    for (const std::string& output : node.output()) producers_.emplace(output, &node);
    for (const std::string& input : node.input()) readers_[input].push_back(&node);
  }
}

std::string NodeIndex::Origin(std::string name) const {
  for (int i = 0; i < kMaxCopies; ++i) {
    const NodeProto* node = Find(name);
    const bool copies =
        node != nullptr && node->input_size() == 1 &&
        (node->op_type() == "Identity" || (node->op_type() == "Cast" && CastsToFloat(*node)));
    if (!copies) break;
    name = node->input(0);
  }
  return name;
}

const NodeProto* NodeIndex::Find(const std::string& name) const {
  const auto found = producers_.find(name);
  return found == producers_.end() ? nullptr : found->second;
}

const NodeProto* NodeIndex::Find(const std::string& name, std::string_view op, int inputs) const {
  const NodeProto* node = Find(Origin(name));
  return node != nullptr && node->op_type() == op && node->input_size() == inputs ? node : nullptr;
}

const std::vector<const NodeProto*>& NodeIndex::ReadersOf(const std::string& name) const {
  static const std::vector<const NodeProto*> kNone;
  const auto found = readers_.find(name);
  return found == readers_.end() ? kNone : found->second;
}

const TensorProto* NodeIndex::Constant(const std::string& name) const {
  const std::string origin = Origin(name);
  if (const auto found = constants_.find(origin); found != constants_.end()) return found->second;
  const NodeProto* node = Find(origin, "Constant", 0);
  const AttributeProto* value = node == nullptr ? nullptr : Attribute(*node, "value");
  return value == nullptr ? nullptr : &value->t();
}

std::optional<double> NodeIndex::Number(const std::string& name) const {
  if (const TensorProto* constant = Constant(name)) return ReadScalar(*constant);
  const NodeProto* node = Find(name, "Constant", 0);
  const AttributeProto* value = node == nullptr ? nullptr : Attribute(*node, "value_float");
  return value == nullptr ? std::nullopt : std::optional<double>(value->f());
}

bool NodeIndex::IsNumber(const std::string& name, double expected) const {
  const std::optional<double> number = Number(name);
  return number.has_value() && IsNear(*number, expected);
}

const AttributeProto* NodeIndex::Attribute(const NodeProto& node, std::string_view name) {
  for (const AttributeProto& attribute : node.attribute()) {
    if (attribute.name() == name) return &attribute;
  }
  return nullptr;
}

bool IsNear(double value, double expected) {
  return std::abs(value - expected) <= 2e-3 * std::abs(expected);
}

std::map<std::string, int> CountReaders(const GraphProto& graph) {
  std::map<std::string, int> readers;
  for (const NodeProto& node : graph.node()) {
    for (const std::string& input : node.input()) ++readers[input];
  }
  for (const ValueInfoProto& output : graph.output()) ++readers[output.name()];
  return readers;
}

void RemoveUnread(const std::map<std::string, int>& before, GraphProto& graph) {
  std::map<std::string, int> readers = CountReaders(graph);
  std::vector<bool> removed(graph.node_size(), false);
  for (int i = graph.node_size() - 1; i >= 0; --i) {
    const NodeProto& node = graph.node(i);
    removed[i] =
        node.output_size() > 0 &&
        std::all_of(node.output().begin(), node.output().end(), [&](const std::string& output) {
          return before.contains(output) && readers[output] == 0;
        });
    if (!removed[i]) continue;
    for (const std::string& input : node.input()) --readers[input];
  }
  auto& nodes = *graph.mutable_node();
  int kept = 0;
  for (int i = 0; i < nodes.size(); ++i) {
    if (!removed[i]) nodes.SwapElements(kept++, i);
  }
  nodes.DeleteSubrange(kept, nodes.size() - kept);
}

}  // namespace upscaled::onnx
