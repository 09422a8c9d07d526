#include "engine/model/onnx/plane_numbers.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "engine/model/onnx/attributes.h"
#include "engine/model/onnx/evaluate.h"

namespace upscaled::onnx {
namespace {

constexpr int kMaxNumberDepth = 512;  // PyTorch's mask is 150 deep

Numbers ToNumbers(const std::vector<int64_t>& ints) {
  Numbers numbers{true, {std::ssize(ints)}, {}};
  numbers.values.assign(ints.begin(), ints.end());
  return numbers;
}

}  // namespace

std::optional<std::vector<int64_t>> PlaneNumbers::Ints(const std::string& name) {
  const std::optional<Numbers> numbers = Of(name);
  if (!numbers) return std::nullopt;
  std::vector<int64_t> ints;
  for (const double value : numbers->values) ints.push_back(ToInteger(value));
  return ints;
}

const Numbers* PlaneNumbers::Find(const std::string& name, int depth) {
  if (depth > kMaxNumberDepth) return nullptr;
  // Nothing yet, so that a cycle ends.
  const auto [known, added] = known_.emplace(name, std::nullopt);
  if (added) {
    std::optional<Numbers> numbers = Compute(name, depth);
    if (numbers) budget_.numbers -= std::ssize(numbers->values) + 1;
    if (budget_.numbers >= 0) known->second = std::move(numbers);
  }
  return known->second ? &*known->second : nullptr;
}

std::optional<Numbers> PlaneNumbers::Compute(const std::string& name, int depth) {
  if (const TensorProto* constant = nodes_.Constant(name)) {
    absl::StatusOr<Numbers> numbers = ReadNumbers(*constant);
    return numbers.ok() ? std::optional(*std::move(numbers)) : std::nullopt;
  }
  const NodeProto* node = nodes_.Find(name);
  if (node == nullptr) return std::nullopt;
  if (node->op_type() == "Shape") return ShapeOf(*node, depth);
  if (node->op_type() == "Identity" && node->input_size() == 1) {
    const Numbers* const same = Find(node->input(0), depth + 1);
    return same == nullptr ? std::nullopt : std::optional(*same);
  }
  if (!CanEvaluate(node->op_type())) return std::nullopt;
  std::vector<const Numbers*> inputs;
  for (const std::string& input : node->input()) {
    inputs.push_back(input.empty() ? nullptr : Find(input, depth + 1));
    if (!input.empty() && inputs.back() == nullptr) return std::nullopt;
  }
  Attributes attributes(*node);
  absl::StatusOr<std::vector<Numbers>> results =
      Evaluate(node->op_type(), attributes, inputs, node->output_size());
  if (!results.ok() || !attributes.CheckAllRead().ok()) return std::nullopt;
  const auto place = std::find(node->output().begin(), node->output().end(), name);
  const auto index = static_cast<size_t>(place - node->output().begin());
  return index < results->size() ? std::optional((*results)[index]) : std::nullopt;
}

// Whole shapes only: newer operator sets can ask for some of the axes.
std::optional<Numbers> PlaneNumbers::ShapeOf(const NodeProto& node, int depth) {
  if (node.input_size() != 1 || node.attribute_size() != 0) return std::nullopt;
  const auto given = shapes_.find(nodes_.Origin(node.input(0)));
  if (given != shapes_.end()) return ToNumbers(given->second);
  const Numbers* const numbers = Find(node.input(0), depth + 1);
  return numbers != nullptr ? std::optional(ToNumbers(numbers->dims)) : std::nullopt;
}

}  // namespace upscaled::onnx
