// The nodes of a graph by their results, for searches of several at once.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/onnx/schema.pb.h"

namespace upscaled::onnx {

// Borrows the graph; its nodes may change, but not move.
class NodeIndex {
 public:
  explicit NodeIndex(const GraphProto& graph);

  // Returns the name of the same value before copies and changes of its type of float.
  std::string Origin(std::string name) const;
  // Returns a value's node; null if no node computes it.
  const NodeProto* Find(const std::string& name) const;
  // Returns a value's node, before copies, if it is of this operator and has as many inputs; null
  // otherwise.
  const NodeProto* Find(const std::string& name, std::string_view op, int inputs) const;
  // Returns a value's readers, as often as they read it.
  const std::vector<const NodeProto*>& ReadersOf(const std::string& name) const;

  // Returns a value's tensor if it is a constant; null otherwise.
  const TensorProto* Constant(const std::string& name) const;
  // Returns a constant of one number.
  std::optional<double> Number(const std::string& name) const;
  // Whether it is a constant near `expected`.
  bool IsNumber(const std::string& name, double expected) const;

  // Returns an attribute; null if the node has none of this name.
  static const AttributeProto* Attribute(const NodeProto& node, std::string_view name);

 private:
  std::map<std::string, const NodeProto*> producers_;
  std::map<std::string, std::vector<const NodeProto*>> readers_;
  std::map<std::string, const TensorProto*> constants_;
};

// Whether a constant is meant to be `expected`: float16 keeps three digits of it.
bool IsNear(double value, double expected);

// Returns how often each value is read, as a result of the graph as well.
std::map<std::string, int> CountReaders(const GraphProto& graph);

// Takes out nodes without readers except the ones changed since `before`, CountReaders' result.
void RemoveUnread(const std::map<std::string, int>& before, GraphProto& graph);

}  // namespace upscaled::onnx
