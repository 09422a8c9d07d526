#include "engine/model/onnx/byte_range.h"

#include <optional>
#include <string>
#include <vector>

#include "engine/model/onnx/node_index.h"

namespace upscaled::onnx {
namespace {

constexpr double kMaxByte = 255;

// The input that a node multiplies by a number near `factor`, or divides by its inverse; nullopt:
// it does something else.
std::optional<std::string> ScaledBy(const NodeIndex& nodes, const NodeProto& node, double factor) {
  if (node.input_size() != 2 || node.output_size() != 1) return std::nullopt;
  if (node.op_type() == "Div" && nodes.IsNumber(node.input(1), 1 / factor)) return node.input(0);
  if (node.op_type() != "Mul") return std::nullopt;
  if (nodes.IsNumber(node.input(1), factor)) return node.input(0);
  if (nodes.IsNumber(node.input(0), factor)) return node.input(1);
  return std::nullopt;
}

void MakeIdentity(const std::string& input, NodeProto& node) {
  node.set_op_type("Identity");
  node.clear_attribute();
  node.clear_input();
  node.add_input(input);
}

}  // namespace

void RemoveByteRange(GraphProto& graph) {
  const NodeIndex nodes(graph);
  std::string last = graph.output_size() == 1 ? nodes.Origin(graph.output(0).name()) : "";
  if (const NodeProto* const clip = nodes.Find(last); clip != nullptr && clip->op_type() == "Clip")
    last = nodes.Origin(clip->input(0));
  struct Found {
    NodeProto* node;
    std::string input;
  };
  std::vector<Found> found;  // to be changed when no search follows
  for (NodeProto& node : *graph.mutable_node()) {
    const auto divided = ScaledBy(nodes, node, 1 / kMaxByte);
    const bool is_first = divided.has_value() && nodes.Find(nodes.Origin(*divided)) == nullptr &&
                          nodes.Constant(nodes.Origin(*divided)) == nullptr;
    if (is_first) found.push_back({&node, *divided});
    const auto multiplied = ScaledBy(nodes, node, kMaxByte);
    if (multiplied.has_value() && node.output(0) == last) found.push_back({&node, *multiplied});
  }
  for (const Found& each : found) MakeIdentity(each.input, *each.node);
}

}  // namespace upscaled::onnx
