#include "engine/model/onnx/evaluate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/base/string_view.h"
#include "engine/model/limits.h"
#include "engine/model/onnx/axes.h"
#include "engine/model/onnx/tensor.h"
#include "engine/model/quote.h"

namespace upscaled::onnx {
namespace {

using Ints = std::vector<int64_t>;

// A node and its inputs.
struct Call {
  std::string_view op;
  Attributes& attributes;
  const std::vector<const Numbers*>& inputs;
  size_t outputs;

  bool Has(size_t i) const { return i < inputs.size() && inputs[i] != nullptr; }
  absl::StatusOr<const Numbers*> Input(size_t i) const {
    if (Has(i)) return inputs[i];
    return absl::InvalidArgumentError(absl::StrCat("lacks input ", i));
  }
  // Integers of the attribute or of input `i`; empty when neither is there.
  absl::StatusOr<Ints> IntsOf(std::string_view name, size_t i) const {
    if (!Has(i)) return attributes.Ints(name);
    Ints ints;
    for (const double value : inputs[i]->values) ints.push_back(ToInteger(value));
    return ints;
  }
};
using Result = absl::StatusOr<Numbers>;

absl::StatusOr<int64_t> Count(const Ints& dims) {
  int64_t count = 1;
  for (const int64_t dim : dims) {
    if (dim < 0 || dims.size() > kMaxTensorAxes) {
      return absl::InvalidArgumentError(absl::StrCat("gives numbers of the shape ", List(dims),
                                                     ", with at most ", kMaxTensorAxes,
                                                     " sides of 0 or more"));
    }
    if (dim > kMaxOnnxFolded || (count *= dim) > kMaxOnnxFolded) {
      return absl::ResourceExhaustedError(absl::StrCat("gives numbers of the shape ", List(dims),
                                                       ", the limit is ", kMaxOnnxFolded));
    }
  }
  return count;
}

// How far the next value along each axis lies; 0 along repeated ones, up to `axes` of them.
Ints Strides(const Ints& dims, size_t axes) {
  Ints strides(axes, 0);
  int64_t stride = 1;
  for (size_t i = 0; i < dims.size(); ++i) {
    const size_t from = dims.size() - 1 - i;
    if (dims[from] != 1) strides[axes - 1 - i] = stride;
    stride *= dims[from];
  }
  return strides;
}

// Calls visit(place) with the places of a walk over `dims`, row-major, by these strides.
template <typename Visit>
void Walk(const Ints& dims, int64_t start, const Ints& strides, Visit visit) {
  const int64_t count = std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
  Ints position(dims.size(), 0);
  for (int64_t i = 0, place = start; i < count; ++i) {
    visit(place);
    for (size_t axis = dims.size(); axis-- > 0;) {
      place += strides[axis];
      if (++position[axis] < dims[axis]) break;
      place -= strides[axis] * dims[axis];
      position[axis] = 0;
    }
  }
}

// Values of `source` in the order of such a walk.
Result Pick(const Numbers& source, Ints dims, int64_t start, const Ints& strides) {
  RETURN_IF_ERROR(Count(dims).status());
  Numbers result{source.whole, std::move(dims), {}};
  Walk(result.dims, start, strides,
       [&](int64_t place) { result.values.push_back(source.values[place]); });
  return result;
}

// The common shape of both, after repeats.
absl::StatusOr<Ints> Broadcast(const Ints& a, const Ints& b) {
  Ints dims(std::max(a.size(), b.size()), 1);
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1;
    const int64_t y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("takes numbers of the shapes ", List(a), " and ", List(b)));
    }
    dims[dims.size() - 1 - i] = x == 1 ? y : x;
  }
  RETURN_IF_ERROR(Count(dims).status());
  return dims;
}

Result Repeat(const Numbers& source, const Ints& dims) {
  return Pick(source, dims, 0, Strides(source.dims, dims.size()));
}

double Truncate(double value, bool whole) { return whole ? std::trunc(value) : value; }

// Nothing for a division of integers by 0.
std::optional<double> Binary(std::string_view op, double a, double b, bool whole) {
  if (op == "Add") return a + b;
  if (op == "Sub") return a - b;
  if (op == "Mul") return a * b;
  if (op == "Min") return std::min(a, b);
  if (op == "Max") return std::max(a, b);
  if (op == "Pow") return Truncate(std::pow(a, b), whole);
  if (op == "Equal") return a == b ? 1 : 0;
  if (op == "Greater") return a > b ? 1 : 0;
  if (op == "GreaterOrEqual") return a >= b ? 1 : 0;
  if (op == "Less") return a < b ? 1 : 0;
  if (op == "LessOrEqual") return a <= b ? 1 : 0;
  if (op == "And") return a != 0 && b != 0 ? 1 : 0;
  if (op == "Or") return a != 0 || b != 0 ? 1 : 0;
  if (whole && b == 0) return std::nullopt;
  if (op == "Div") return Truncate(a / b, whole);
  return a - b * std::floor(a / b);  // Mod
}

Result BinaryOf(const Call& call, const Numbers& a, const Numbers& b) {
  ASSIGN_OR_RETURN(Ints dims, Broadcast(a.dims, b.dims));
  ASSIGN_OR_RETURN(const Numbers first, Repeat(a, dims));
  ASSIGN_OR_RETURN(Numbers result, Repeat(b, dims));
  for (size_t i = 0; i < result.values.size(); ++i) {
    const std::optional<double> value =
        Binary(call.op, first.values[i], result.values[i], a.whole && b.whole);
    if (!value) return absl::InvalidArgumentError("divides by 0");
    result.values[i] = *value;
  }
  constexpr std::string_view kTruths[] = {
      "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "And", "Or"};
  const bool truth =
      std::find(std::begin(kTruths), std::end(kTruths), call.op) != std::end(kTruths);
  result.whole = truth || (a.whole && b.whole);
  return result;
}

Result EvaluateBinary(const Call& call) {
  if (call.op == "Mod") {
    ASSIGN_OR_RETURN(const int64_t as_in_c, call.attributes.Int("fmod", 0));
    if (as_in_c != 0) return absl::UnimplementedError("fmod 1 is not supported");
  }
  ASSIGN_OR_RETURN(const Numbers* first, call.Input(0));
  Numbers result = *first;
  for (size_t i = 1; i < std::max<size_t>(call.inputs.size(), 2); ++i) {
    ASSIGN_OR_RETURN(const Numbers* next, call.Input(i));
    ASSIGN_OR_RETURN(result, BinaryOf(call, result, *next));
  }
  return result;
}

Result EvaluateUnary(const Call& call) {
  ASSIGN_OR_RETURN(const Numbers* input, call.Input(0));
  const std::pair<std::string_view, double (*)(double)> kFunctions[] = {
      {"Floor", [](double v) { return std::floor(v); }},
      {"Ceil", [](double v) { return std::ceil(v); }},
      {"Round", [](double v) { return std::nearbyint(v); }},
      {"Neg", [](double v) { return -v; }},
      {"Abs", [](double v) { return std::abs(v); }},
      {"Sqrt", [](double v) { return std::sqrt(v); }},
      {"Reciprocal", [](double v) { return 1 / v; }},
      {"Exp", [](double v) { return std::exp(v); }},
      {"Relu", [](double v) { return std::max(v, 0.0); }},
      {"Sigmoid", [](double v) { return 1 / (1 + std::exp(-v)); }},
      {"Not", [](double v) { return v == 0 ? 1.0 : 0.0; }}};
  Numbers result = *input;
  for (const auto& [name, function] : kFunctions) {
    if (name != call.op) continue;
    for (double& value : result.values) value = function(value);
  }
  return result;
}

// Limits by inputs in newer operator sets, by attributes in older ones.
Result EvaluateClip(const Call& call) {
  ASSIGN_OR_RETURN(const Numbers* input, call.Input(0));
  std::array<double, 2> limits = {-std::numeric_limits<double>::infinity(),
                                  std::numeric_limits<double>::infinity()};
  const std::array<const char*, 2> names = {"min", "max"};
  for (size_t i = 0; i < limits.size(); ++i) {
    ASSIGN_OR_RETURN(const float limit,
                     call.attributes.Float(names[i], static_cast<float>(limits[i])));
    limits[i] = limit;
    if (!call.Has(i + 1)) continue;
    if (call.inputs[i + 1]->values.size() != 1) {
      return absl::InvalidArgumentError(absl::StrCat(names[i], " must be one number"));
    }
    limits[i] = call.inputs[i + 1]->values[0];
  }
  Numbers result = *input;
  for (double& value : result.values) value = std::min(std::max(value, limits[0]), limits[1]);
  return result;
}

// Multiplies rows by one matrix.
Result EvaluateMatMul(const Call& call) {
  constexpr int64_t kMaxProducts = 100'000'000;  // Swin2SR's biases: 0.7 million
  ASSIGN_OR_RETURN(const Numbers* rows, call.Input(0));
  ASSIGN_OR_RETURN(const Numbers* matrix, call.Input(1));
  if (rows->dims.empty() || matrix->dims.size() != 2 || rows->dims.back() != matrix->dims[0]) {
    return absl::UnimplementedError(absl::StrCat("multiplies numbers of the shapes ",
                                                 List(rows->dims), " and ", List(matrix->dims)));
  }
  const int64_t inner = matrix->dims[0], columns = matrix->dims[1];
  Numbers result{false, rows->dims, {}};
  result.dims.back() = columns;
  ASSIGN_OR_RETURN(const int64_t count, Count(result.dims));
  if (count > 0 && inner > kMaxProducts / count) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "takes ", inner, " products for each of ", count, " numbers, the limit is ", kMaxProducts));
  }
  result.values.assign(static_cast<size_t>(count), 0.0);
  for (int64_t i = 0; i < count; ++i) {
    const double* const row = rows->values.data() + i / columns * inner;
    for (int64_t k = 0; k < inner; ++k) {
      result.values[i] += row[k] * matrix->values[k * columns + i % columns];
    }
  }
  return result;
}

Result EvaluateCast(const Call& call) {
  ASSIGN_OR_RETURN(const Numbers* input, call.Input(0));
  ASSIGN_OR_RETURN(const int64_t to, call.attributes.Int("to", 0));
  RETURN_IF_ERROR(call.attributes.Int("saturate", 1).status());
  const int type = to > 0 && to < 100 ? static_cast<int>(to) : 0;
  Numbers result = *input;
  result.whole = !IsFloatType(type);
  for (double& value : result.values) {
    if (type == TensorProto::BOOL) value = value != 0 ? 1 : 0;
    if (result.whole) value = static_cast<double>(ToInteger(value));
  }
  return result;
}

// The product of its input's sides.
Result EvaluateSize(const Call& call) {
  ASSIGN_OR_RETURN(const Numbers* input, call.Input(0));
  return Numbers{true, {}, {static_cast<double>(input->values.size())}};
}

Result EvaluateGather(const Call& call) {
  ASSIGN_OR_RETURN(const Numbers* data, call.Input(0));
  ASSIGN_OR_RETURN(const Numbers* indices, call.Input(1));
  ASSIGN_OR_RETURN(const int64_t given, call.attributes.Int("axis", 0));
  ASSIGN_OR_RETURN(const int64_t axis, ToAxis(given, data->dims.size()));
  const int64_t side = data->dims[axis];
  // The axes before, the axes of the indices, and the axes behind.
  Ints before(data->dims.begin(), data->dims.begin() + axis);
  const Ints behind(data->dims.begin() + axis + 1, data->dims.end());
  Numbers result{data->whole, before, {}};
  result.dims.insert(result.dims.end(), indices->dims.begin(), indices->dims.end());
  result.dims.insert(result.dims.end(), behind.begin(), behind.end());
  RETURN_IF_ERROR(Count(result.dims).status());
  const auto product = [](const Ints& sides) {
    return std::accumulate(sides.begin(), sides.end(), int64_t{1}, std::multiplies<>());
  };
  const int64_t rows = product(before), run = product(behind);
  for (int64_t row = 0; row < rows; ++row) {
    for (const double value : indices->values) {
      const int64_t index = ToInteger(value) + (value < 0 ? side : 0);
      if (index < 0 || index >= side) {
        return absl::InvalidArgumentError(
            absl::StrCat("index ", ToInteger(value), " is none of ", side));
      }
      const auto from = data->values.begin() + (row * side + index) * run;
      result.values.insert(result.values.end(), from, from + run);
    }
  }
  return result;
}

Result EvaluateSlice(const Call& call) {
  ASSIGN_OR_RETURN(const Numbers* data, call.Input(0));
  ASSIGN_OR_RETURN(const Ints starts, call.IntsOf("starts", 1));
  ASSIGN_OR_RETURN(const Ints ends, call.IntsOf("ends", 2));
  ASSIGN_OR_RETURN(Ints axes, call.IntsOf("axes", 3));
  ASSIGN_OR_RETURN(Ints steps, call.IntsOf("steps", 4));
  if (axes.empty()) {
    axes.resize(starts.size());
    std::iota(axes.begin(), axes.end(), 0);
  }
  if (steps.empty()) steps.assign(starts.size(), 1);
  if (ends.size() != starts.size() || axes.size() != starts.size() ||
      steps.size() != starts.size()) {
    return absl::InvalidArgumentError("has other numbers of starts, ends, axes and steps");
  }
  Ints dims = data->dims, strides = Strides(data->dims, data->dims.size());
  int64_t start = 0;
  for (size_t i = 0; i < axes.size(); ++i) {
    ASSIGN_OR_RETURN(const int64_t axis, ToAxis(axes[i], dims.size()));
    const int64_t side = dims[axis], step = steps[i];
    if (step == 0 || std::abs(step) > kMaxOnnxFolded) {
      return absl::InvalidArgumentError(absl::StrCat("has a step of ", step));
    }
    const auto place = [side, step](int64_t at) {
      const int64_t from_begin = at < 0 ? at + side : at;
      return step > 0 ? std::clamp<int64_t>(from_begin, 0, side)
                      : std::clamp<int64_t>(from_begin, -1, side - 1);
    };
    const int64_t first = place(starts[i]), end = place(ends[i]);
    dims[axis] = std::max<int64_t>(
        0, step > 0 ? (end - first + step - 1) / step : (first - end - step - 1) / -step);
    start += first * strides[axis];
    strides[axis] *= step;
  }
  return Pick(*data, dims, start, strides);
}

Result EvaluateConcat(const Call& call) {
  ASSIGN_OR_RETURN(const Numbers* first, call.Input(0));
  ASSIGN_OR_RETURN(const int64_t given, call.attributes.Int("axis", 0));
  ASSIGN_OR_RETURN(const int64_t axis, ToAxis(given, first->dims.size()));
  Numbers result{first->whole, first->dims, {}};
  result.dims[axis] = 0;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    ASSIGN_OR_RETURN(const Numbers* next, call.Input(i));
    Ints dims = next->dims;
    if (dims.size() == result.dims.size()) dims[axis] = result.dims[axis];
    if (dims != result.dims) {
      return absl::InvalidArgumentError(absl::StrCat("joins numbers of the shapes ",
                                                     List(first->dims), " and ", List(next->dims)));
    }
    result.dims[axis] += next->dims[axis];
    RETURN_IF_ERROR(Count(result.dims).status());
  }
  const auto run = [axis](const Numbers& n) {
    return std::accumulate(n.dims.begin() + axis, n.dims.end(), int64_t{1}, std::multiplies<>());
  };
  const int64_t rows = std::accumulate(result.dims.begin(), result.dims.begin() + axis, int64_t{1},
                                       std::multiplies<>());
  for (int64_t row = 0; row < rows; ++row) {
    for (const Numbers* next : call.inputs) {
      const auto from = next->values.begin() + row * run(*next);
      result.values.insert(result.values.end(), from, from + run(*next));
    }
  }
  return result;
}

Result EvaluateReshape(const Call& call) {
  ASSIGN_OR_RETURN(const Numbers* data, call.Input(0));
  ASSIGN_OR_RETURN(Ints dims, call.IntsOf("shape", 1));
  RETURN_IF_ERROR(call.attributes.Expect("allowzero", 0));
  int64_t known = 1;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 0 && i < data->dims.size()) dims[i] = data->dims[i];
    if (dims[i] == -1) continue;
    ASSIGN_OR_RETURN(const int64_t side, Count({dims[i]}));
    ASSIGN_OR_RETURN(known, Count({known, side}));
  }
  const auto count = static_cast<int64_t>(data->values.size());
  const auto left = std::find(dims.begin(), dims.end(), -1);
  if (left != dims.end()) *left = known == 0 ? 0 : count / known;
  ASSIGN_OR_RETURN(const int64_t reshaped, Count(dims));
  if (reshaped != count) {
    return absl::InvalidArgumentError(
        absl::StrCat("gives ", count, " numbers the shape ", List(dims)));
  }
  return Numbers{data->whole, dims, data->values};
}

Result EvaluateTranspose(const Call& call) {
  ASSIGN_OR_RETURN(const Numbers* data, call.Input(0));
  ASSIGN_OR_RETURN(Ints order, call.attributes.Ints("perm"));
  if (order.empty()) {
    order.resize(data->dims.size());
    std::iota(order.rbegin(), order.rend(), 0);
  }
  RETURN_IF_ERROR(CheckPermutation(order, data->dims.size()));
  const Ints strides = Strides(data->dims, data->dims.size());
  Ints dims, by;
  for (const int64_t axis : order) {
    dims.push_back(data->dims[axis]);
    by.push_back(strides[axis]);
  }
  return Pick(*data, dims, 0, by);
}

Result EvaluateSqueeze(const Call& call) {
  ASSIGN_OR_RETURN(const Numbers* data, call.Input(0));
  ASSIGN_OR_RETURN(const Ints axes, call.IntsOf("axes", 1));
  ASSIGN_OR_RETURN(const std::vector<bool> dropped, MarkAxes(axes, data->dims.size()));
  Numbers result{data->whole, {}, data->values};
  for (size_t i = 0; i < data->dims.size(); ++i) {
    const bool drop = axes.empty() ? data->dims[i] == 1 : dropped[i];
    if (drop && data->dims[i] != 1) {
      return absl::InvalidArgumentError(absl::StrCat("takes out an axis of ", data->dims[i]));
    }
    if (!drop) result.dims.push_back(data->dims[i]);
  }
  return result;
}

Result EvaluateUnsqueeze(const Call& call) {
  ASSIGN_OR_RETURN(const Numbers* data, call.Input(0));
  ASSIGN_OR_RETURN(const Ints axes, call.IntsOf("axes", 1));
  ASSIGN_OR_RETURN(const std::vector<bool> added, MarkAxes(axes, data->dims.size() + axes.size()));
  Numbers result{data->whole, {}, data->values};
  auto side = data->dims.begin();
  for (const bool add : added) result.dims.push_back(add ? 1 : *side++);
  RETURN_IF_ERROR(Count(result.dims).status());
  return result;
}

Result EvaluateRange(const Call& call) {
  Numbers result;
  double bounds[3] = {};
  for (size_t i = 0; i < 3; ++i) {
    ASSIGN_OR_RETURN(const Numbers* bound, call.Input(i));
    if (bound->values.size() != 1) return absl::InvalidArgumentError("has bounds of many numbers");
    bounds[i] = bound->values[0];
    result.whole = result.whole && bound->whole;
  }
  const double steps = std::ceil((bounds[1] - bounds[0]) / bounds[2]);
  ASSIGN_OR_RETURN(const int64_t count, Count({std::max<int64_t>(ToInteger(steps), 0)}));
  result.dims = {count};
  for (int64_t i = 0; i < count; ++i) {
    result.values.push_back(bounds[0] + static_cast<double>(i) * bounds[2]);
  }
  return result;
}

Result EvaluateExpand(const Call& call) {
  ASSIGN_OR_RETURN(const Numbers* data, call.Input(0));
  ASSIGN_OR_RETURN(const Ints shape, call.IntsOf("shape", 1));
  RETURN_IF_ERROR(Count(shape).status());
  ASSIGN_OR_RETURN(const Ints dims, Broadcast(data->dims, shape));
  return Repeat(*data, dims);
}

Result EvaluateConstantOfShape(const Call& call) {
  ASSIGN_OR_RETURN(const Ints dims, call.IntsOf("shape", 0));
  ASSIGN_OR_RETURN(const TensorProto* tensor, call.attributes.Tensor("value"));
  Numbers value{false, {}, {0}};
  if (tensor != nullptr) {
    ASSIGN_OR_RETURN(value, ReadNumbers(*tensor));
  }
  if (value.values.size() != 1) return absl::InvalidArgumentError("has many values to fill with");
  ASSIGN_OR_RETURN(const int64_t count, Count(dims));
  return Numbers{value.whole, dims, std::vector<double>(count, value.values[0])};
}

Result EvaluateWhere(const Call& call) {
  ASSIGN_OR_RETURN(const Numbers* condition, call.Input(0));
  ASSIGN_OR_RETURN(const Numbers* first, call.Input(1));
  ASSIGN_OR_RETURN(const Numbers* second, call.Input(2));
  ASSIGN_OR_RETURN(Ints dims, Broadcast(condition->dims, first->dims));
  ASSIGN_OR_RETURN(dims, Broadcast(dims, second->dims));
  ASSIGN_OR_RETURN(const Numbers choice, Repeat(*condition, dims));
  ASSIGN_OR_RETURN(Numbers result, Repeat(*first, dims));
  ASSIGN_OR_RETURN(const Numbers other, Repeat(*second, dims));
  for (size_t i = 0; i < result.values.size(); ++i) {
    if (choice.values[i] == 0) result.values[i] = other.values[i];
  }
  return result;
}

// The product of a list: files use it so with sizes.
Result EvaluateReduceProd(const Call& call) {
  ASSIGN_OR_RETURN(const Numbers* data, call.Input(0));
  ASSIGN_OR_RETURN(const Ints axes, call.IntsOf("axes", 1));
  ASSIGN_OR_RETURN(const int64_t keep, call.attributes.Int("keepdims", 1));
  RETURN_IF_ERROR(call.attributes.Expect("noop_with_empty_axes", 0));
  if (data->dims.size() > 1) return absl::UnimplementedError("is only supported for a list");
  const double product =
      std::accumulate(data->values.begin(), data->values.end(), 1.0, std::multiplies<>());
  return Numbers{data->whole, keep != 0 ? Ints(data->dims.size(), 1) : Ints(), {product}};
}

Result EvaluateTile(const Call& call) {
  ASSIGN_OR_RETURN(const Numbers* data, call.Input(0));
  ASSIGN_OR_RETURN(const Ints repeats, call.IntsOf("repeats", 1));
  if (repeats.size() != data->dims.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("repeats ", data->dims.size(), " axes ", List(repeats), " times"));
  }
  // As [repeats, side] along each axis.
  const Ints strides = Strides(data->dims, data->dims.size());
  Ints dims, by, tiled;
  for (size_t i = 0; i < repeats.size(); ++i) {
    dims.insert(dims.end(), {repeats[i], data->dims[i]});
    by.insert(by.end(), {0, strides[i]});
    ASSIGN_OR_RETURN(const int64_t repeat, Count({repeats[i]}));
    tiled.push_back(repeat * data->dims[i]);
  }
  RETURN_IF_ERROR(Count(tiled).status());
  Numbers result{data->whole, tiled, {}};
  Walk(dims, 0, by, [&](int64_t place) { result.values.push_back(data->values[place]); });
  return result;
}

absl::StatusOr<std::vector<Numbers>> EvaluateSplit(const Call& call) {
  ASSIGN_OR_RETURN(const Numbers* data, call.Input(0));
  ASSIGN_OR_RETURN(const int64_t given, call.attributes.Int("axis", 0));
  ASSIGN_OR_RETURN(const int64_t axis, ToAxis(given, data->dims.size()));
  ASSIGN_OR_RETURN(const Ints wanted, call.IntsOf("split", 1));
  ASSIGN_OR_RETURN(const Ints parts,
                   SplitParts(call.attributes, wanted, call.outputs, data->dims[axis]));
  const Ints strides = Strides(data->dims, data->dims.size());
  std::vector<Numbers> results;
  int64_t first = 0;
  for (const int64_t part : parts) {
    Ints dims = data->dims;
    dims[axis] = part;
    ASSIGN_OR_RETURN(results.emplace_back(), Pick(*data, dims, first * strides[axis], strides));
    first += part;
  }
  return results;
}

// Rows of a copy of the data, at the places from the last axis of the indices, replaced.
Result EvaluateScatterNd(const Call& call) {
  ASSIGN_OR_RETURN(const Numbers* data, call.Input(0));
  ASSIGN_OR_RETURN(const Numbers* indices, call.Input(1));
  ASSIGN_OR_RETURN(const Numbers* updates, call.Input(2));
  ASSIGN_OR_RETURN(const std::string reduction, call.attributes.String("reduction", "none"));
  if (reduction != "none") return absl::UnimplementedError("adds up what it replaces");
  const int64_t axes = indices->dims.empty() ? 0 : indices->dims.back();
  if (axes < 1 || axes > std::ssize(data->dims)) {
    return absl::InvalidArgumentError(
        absl::StrCat("has places on ", axes, " axes of ", data->dims.size()));
  }
  const Ints strides = Strides(data->dims, data->dims.size());
  const int64_t run =
      std::accumulate(data->dims.begin() + axes, data->dims.end(), int64_t{1}, std::multiplies<>());
  const int64_t rows = std::ssize(indices->values) / axes;
  if (rows * run != std::ssize(updates->values)) {
    return absl::InvalidArgumentError(
        absl::StrCat("replaces ", rows * run, " numbers by ", updates->values.size()));
  }
  Numbers result = *data;
  for (int64_t row = 0; row < rows; ++row) {
    int64_t place = 0;
    for (int64_t axis = 0; axis < axes; ++axis) {
      const int64_t side = data->dims[axis], given = ToInteger(indices->values[row * axes + axis]);
      const int64_t index = given < 0 ? given + side : given;
      if (index < 0 || index >= side) {
        return absl::InvalidArgumentError(absl::StrCat("index ", given, " is none of ", side));
      }
      place += index * strides[axis];
    }
    std::copy_n(updates->values.begin() + row * run, run, result.values.begin() + place);
  }
  return result;
}

struct Evaluator {
  std::string_view op;
  Result (*evaluate)(const Call&);
  bool of_numbers = true;
};

constexpr Evaluator kEvaluators[] = {
    {"Add", EvaluateBinary},
    {"Sub", EvaluateBinary},
    {"Mul", EvaluateBinary},
    {"Div", EvaluateBinary},
    {"Mod", EvaluateBinary},
    {"Min", EvaluateBinary},
    {"Max", EvaluateBinary},
    {"Pow", EvaluateBinary},
    {"Equal", EvaluateBinary},
    {"Greater", EvaluateBinary},
    {"GreaterOrEqual", EvaluateBinary},
    {"Less", EvaluateBinary},
    {"LessOrEqual", EvaluateBinary},
    {"And", EvaluateBinary},
    {"Or", EvaluateBinary},
    {"Floor", EvaluateUnary},
    {"Ceil", EvaluateUnary},
    {"Round", EvaluateUnary},
    {"Neg", EvaluateUnary},
    {"Abs", EvaluateUnary},
    {"Sqrt", EvaluateUnary},
    {"Reciprocal", EvaluateUnary},
    {"Not", EvaluateUnary},
    {"Exp", EvaluateUnary, /*of_numbers=*/false},
    {"Relu", EvaluateUnary, /*of_numbers=*/false},
    {"Sigmoid", EvaluateUnary, /*of_numbers=*/false},
    {"Clip", EvaluateClip, /*of_numbers=*/false},
    {"MatMul", EvaluateMatMul, /*of_numbers=*/false},
    {"Cast", EvaluateCast},
    {"Size", EvaluateSize},
    {"Gather", EvaluateGather},
    {"Slice", EvaluateSlice},
    {"Concat", EvaluateConcat},
    {"Reshape", EvaluateReshape},
    {"Transpose", EvaluateTranspose},
    {"Squeeze", EvaluateSqueeze},
    {"Unsqueeze", EvaluateUnsqueeze},
    {"Range", EvaluateRange},
    {"Expand", EvaluateExpand},
    {"Tile", EvaluateTile},
    {"ConstantOfShape", EvaluateConstantOfShape},
    {"Where", EvaluateWhere},
    {"ReduceProd", EvaluateReduceProd},
    {"ScatterND", EvaluateScatterNd},
};

constexpr std::string_view kSplit = "Split";  // has many results

const Evaluator* Find(std::string_view op) {
  const auto* found = std::find_if(std::begin(kEvaluators), std::end(kEvaluators),
                                   [op](const Evaluator& e) { return e.op == op; });
  return found == std::end(kEvaluators) ? nullptr : found;
}

}  // namespace

bool CanEvaluate(std::string_view op) { return op == kSplit || Find(op) != nullptr; }

bool IsOfNumbers(std::string_view op) {
  const Evaluator* const evaluator = Find(op);
  return op == kSplit || (evaluator != nullptr && evaluator->of_numbers);
}

absl::StatusOr<std::vector<Numbers>> Evaluate(std::string_view op, Attributes& attributes,
                                              const std::vector<const Numbers*>& inputs,
                                              size_t outputs) {
  const Call call{op, attributes, inputs, outputs};
  if (op == kSplit) return EvaluateSplit(call);
  const Evaluator* evaluator = Find(op);
  if (evaluator == nullptr) {
    return absl::UnimplementedError(absl::StrCat(ToAbsl(op), " is not computed of numbers"));
  }
  ASSIGN_OR_RETURN(Numbers result, evaluator->evaluate(call));
  return std::vector<Numbers>{std::move(result)};
}

}  // namespace upscaled::onnx
