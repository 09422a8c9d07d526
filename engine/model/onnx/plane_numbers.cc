#include "engine/model/onnx/plane_numbers.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "engine/model/onnx/attributes.h"
#include "engine/model/onnx/evaluate.h"
#include "engine/model/onnx/patterns.h"

namespace upscaled::onnx {
namespace {

using Dims = std::vector<int64_t>;

constexpr int kMaxNumberDepth = 512;  // PyTorch's mask is 150 deep
constexpr size_t kMaxSides = 8;       // of a value
constexpr int64_t kMaxSide = int64_t{1} << 40;
// Operators with a result of the first input's sides.
constexpr std::string_view kKeepSides[] = {"LayerNormalization", "Gelu",    "Mish", "Relu",
                                           "LeakyRelu",          "Sigmoid", "Clip", kNormalize};

// Whether a convolution pads by half its kernel and makes no strides.
bool KeepsTheSize(const NodeProto& conv, const TensorProto& weights) {
  const auto are = [&conv](std::string_view name, int64_t number, bool missing) {
    const AttributeProto* attribute = NodeIndex::Attribute(conv, name);
    return attribute == nullptr ? missing
                                : std::ranges::all_of(attribute->ints(),
                                                      [number](int64_t i) { return i == number; });
  };
  return weights.dims_size() == 4 && weights.dims(2) == weights.dims(3) &&
         weights.dims(2) % 2 == 1 && are("pads", weights.dims(2) / 2, weights.dims(2) == 1) &&
         are("strides", 1, true) && are("dilations", 1, true) &&
         NodeIndex::Attribute(conv, "auto_pad") == nullptr;
}

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
    const int64_t count = numbers ? std::ssize(numbers->values) + 1 : 0;
    budget_.numbers -= count;
    own_numbers_ -= count;
    if (budget_.numbers >= 0 && own_numbers_ >= 0) known->second = std::move(numbers);
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
  if (const Numbers* const numbers = Find(node.input(0), depth + 1))
    return ToNumbers(numbers->dims);
  const std::optional<Dims> sides = SidesOf(node.input(0), depth + 1);
  return sides ? std::optional(ToNumbers(*sides)) : std::nullopt;
}

std::optional<Dims> PlaneNumbers::SidesOf(const std::string& name, int depth) {
  const std::string origin = nodes_.Origin(name);
  if (const auto given = shapes_.find(origin); given != shapes_.end()) return given->second;
  if (depth > kMaxNumberDepth) return std::nullopt;
  // Nothing yet, so that a cycle ends.
  const auto [known, added] = known_sides_.emplace(origin, std::nullopt);
  const NodeProto* node = nodes_.Find(origin);
  if (added && node != nullptr && node->output_size() == 1 && node->input_size() >= 1) {
    std::optional<Dims> sides = InferSides(*node, depth + 1);
    if (sides && sides->size() <= kMaxSides) known->second = std::move(sides);
  }
  return known->second;
}

std::optional<Dims> PlaneNumbers::InferSides(const NodeProto& node, int depth) {
  const std::string& op = node.op_type();
  if (op == "Reshape" && node.input_size() == 2) return ReshapedSides(node, depth);
  if (op == "Add" || op == "Sub" || op == "Mul" || op == "Div") {
    for (const std::string& input : node.input()) {
      if (nodes_.Constant(input) != nullptr) continue;
      if (std::optional<Dims> sides = SidesOf(input, depth)) return sides;
    }
    return std::nullopt;
  }
  std::optional<Dims> sides = SidesOf(node.input(0), depth);
  if (!sides) return std::nullopt;
  if (op == "Transpose") {
    const AttributeProto* perm = NodeIndex::Attribute(node, "perm");
    if (perm == nullptr || perm->ints_size() != std::ssize(*sides)) return std::nullopt;
    Dims moved;
    for (const int64_t axis : perm->ints()) {
      if (axis < 0 || axis >= std::ssize(*sides)) return std::nullopt;
      moved.push_back((*sides)[axis]);
    }
    return moved;
  }
  if (op == "MatMul" || op == "Conv") {
    const TensorProto* weights = node.input_size() > 1 ? nodes_.Constant(node.input(1)) : nullptr;
    if (weights == nullptr || sides->empty()) return std::nullopt;
    if (op == "MatMul" && weights->dims_size() == 2) {
      sides->back() = weights->dims(1);
      return sides;
    }
    if (op != "Conv" || sides->size() != 4 || !KeepsTheSize(node, *weights)) return std::nullopt;
    (*sides)[1] = weights->dims(0);
    return sides;
  }
  const bool keeps = std::ranges::find(kKeepSides, op) != std::end(kKeepSides);
  return keeps ? sides : std::nullopt;
}

std::optional<Dims> PlaneNumbers::ReshapedSides(const NodeProto& node, int depth) {
  const Numbers* const target = Find(node.input(1), depth);
  if (target == nullptr || target->values.size() > kMaxSides) return std::nullopt;
  Dims sides;
  int64_t product = 1, open = -1;
  for (const double value : target->values) {
    const int64_t side = ToInteger(value);
    if (side == -1 && open < 0) {
      open = std::ssize(sides);
    } else if (side < 1 || side > kMaxSide / product) {
      return std::nullopt;
    } else {
      product *= side;
    }
    sides.push_back(side);
  }
  if (open < 0) return sides;
  const std::optional<Dims> before = SidesOf(node.input(0), depth);
  if (!before) return std::nullopt;
  int64_t count = 1;
  for (const int64_t side : *before) {
    if (side < 1 || side > kMaxSide / count) return std::nullopt;
    count *= side;
  }
  if (count % product != 0) return std::nullopt;
  sides[open] = count / product;
  return sides;
}

}  // namespace upscaled::onnx
