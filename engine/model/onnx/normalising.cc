// Operators with means.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/model/limits.h"
#include "engine/model/onnx/axes.h"
#include "engine/model/onnx/builder.h"
#include "engine/model/onnx/tensor.h"
#include "engine/model/quote.h"

namespace upscaled::onnx {
namespace {

// The view without these axes, or with one position along each.
View Reduced(const View& view, const std::vector<int64_t>& axes, bool keep) {
  View result;
  for (size_t i = 0; i < view.size(); ++i) {
    const bool reduced = std::find(axes.begin(), axes.end(), static_cast<int64_t>(i)) != axes.end();
    if (!reduced) result.push_back(view[i]);
    if (reduced && keep) result.emplace_back();
  }
  return result;
}

// The digits of rows and columns, lost in a pooled layer.
View WithoutPlanes(View view) {
  for (Axis& axis : view) {
    std::erase_if(axis, [](const Digit& digit) {
      return digit.of == Digit::kRow || digit.of == Digit::kColumn;
    });
  }
  return view;
}

std::vector<int64_t> AllAxes(size_t from, size_t axes) {
  std::vector<int64_t> result(axes - from);
  std::iota(result.begin(), result.end(), static_cast<int64_t>(from));
  return result;
}

// How many groups of channels there are, of each of which `axes` have all that is next to each
// other; 0: they have not.
int GroupsOf(const View& view, const std::vector<int64_t>& axes, int channels) {
  int64_t inside = 1;
  for (const int64_t axis : axes) {
    for (auto digit = view[axis].rbegin(); digit != view[axis].rend(); ++digit) {
      if (digit->of != Digit::kChannel) continue;
      if (digit->stride != inside) return 0;
      inside *= digit->count[0];
    }
  }
  return channels % inside == 0 ? static_cast<int>(channels / inside) : 0;
}

}  // namespace

absl::Status Builder::AddGlobalAveragePool(Node& node) {
  ASSIGN_OR_RETURN(const Value* input, Planes(node, 0));
  return Append(node, NewLayer(node, Op::kGlobalAveragePool, {input}));
}

absl::Status Builder::AppendChannelMean(const Node& node, const Value& value,
                                        const std::vector<int64_t>& axes, bool keep) {
  // The remaining digits count the results.
  View view = value.view;
  std::vector<Digit*> kept;
  int64_t results = 1;
  for (size_t i = 0; i < view.size(); ++i) {
    if (std::find(axes.begin(), axes.end(), static_cast<int64_t>(i)) != axes.end()) continue;
    for (Digit& digit : view[i]) {
      if (digit.of == Digit::kChannel) kept.push_back(&digit);
    }
  }
  std::sort(kept.begin(), kept.end(),
            [](const Digit* a, const Digit* b) { return a->stride < b->stride; });
  const int channels = Channels(value);
  std::vector<int64_t> result_of(channels, 0);
  for (Digit* digit : kept) {
    for (int c = 0; c < channels; ++c) {
      result_of[c] += c / digit->stride % digit->count[0] * results;
    }
    digit->stride = results;
    results *= digit->count[0];
  }
  Layer layer = NewLayer(node, Op::kConv, {&value});
  layer.out_channels = static_cast<int>(results);
  layer.weights.assign(results * channels, 0.0f);
  layer.bias.assign(results, 0.0f);
  const auto share = static_cast<float>(static_cast<double>(results) / channels);
  for (int c = 0; c < channels; ++c) layer.weights[result_of[c] * channels + c] = share;
  if (per_image_[value.layer]) layer.op = Op::kFullyConnected;
  Value result = value;
  result.view = Reduced(view, axes, keep);
  ASSIGN_OR_RETURN(result.layer, AppendUnnamed(std::move(layer)));
  result.shared = false;
  return SetOutput(node, std::move(result));
}

absl::Status Builder::AddReduceMean(Node& node) {
  ASSIGN_OR_RETURN(const Value* input, Tensor(node, 0));
  ASSIGN_OR_RETURN(const std::vector<int64_t> given, IntsOf(node, "axes", 1));
  ASSIGN_OR_RETURN(const int64_t keep, node.attributes.Int("keepdims", 1));
  RETURN_IF_ERROR(node.attributes.Expect("noop_with_empty_axes", 0));
  ASSIGN_OR_RETURN(const std::vector<int64_t> axes, ToAxes(given, input->view.size()));
  if (HasCut(*input)) return absl::UnimplementedError("takes the mean of planes that were cut");
  if (!axes.empty() && HaveRowsAndColumns(input->view, axes)) {
    View view = WithoutPlanes(input->view);
    const bool only_planes =
        std::all_of(axes.begin(), axes.end(), [&view](int64_t axis) { return view[axis].empty(); });
    if (only_planes) {
      Value result{.view = Reduced(view, axes, keep != 0)};
      Layer pool = NewLayer(node, Op::kGlobalAveragePool, {input});
      ASSIGN_OR_RETURN(result.layer, AppendUnnamed(std::move(pool)));
      return SetOutput(node, std::move(result));
    }
  }
  const bool of_channels =
      !axes.empty() && std::all_of(axes.begin(), axes.end(), [&](int64_t axis) {
        const Axis& digits = input->view[axis];
        return std::all_of(digits.begin(), digits.end(), [](const Digit& digit) {
          return digit.of == Digit::kChannel || digit.of == Digit::kNothing;
        });
      });
  if (of_channels) return AppendChannelMean(node, *input, axes, keep != 0);
  return absl::UnimplementedError(absl::StrCat(
      "axes ", List(given), " are not supported, only height and width, or those of channels"));
}

absl::Status Builder::AppendGroupNorm(const Node& node, const Value& value, Layer norm) {
  Layer square = NewLayer(node, Op::kMul, {&value, &value});
  ASSIGN_OR_RETURN(const int squares, AppendUnnamed(std::move(square)));
  Layer both = NewLayer(node, Op::kConcat, {&value});
  both.inputs.push_back(squares);
  both.out_channels *= 2;
  Value pooled;
  ASSIGN_OR_RETURN(pooled.layer, AppendUnnamed(std::move(both)));
  ASSIGN_OR_RETURN(const int moments,
                   AppendUnnamed(NewLayer(node, Op::kGlobalAveragePool, {&pooled})));
  norm.op = Op::kGroupNorm;
  norm.inputs.push_back(moments);
  return AppendLike(node, std::move(norm), value);
}

absl::Status Builder::AppendNorm(const Node& node, const Value& value,
                                 const std::vector<int64_t>& axes, Layer norm) {
  if (HasCut(value)) return absl::UnimplementedError("normalises planes that were cut");
  if (AreChannels(value.view, axes, Channels(value))) {
    return AppendLike(node, std::move(norm), value);
  }
  norm.groups = GroupsOf(value.view, axes, Channels(value));
  if (norm.groups > 0 && norm.centred && HaveRowsAndColumns(value.view, axes)) {
    return AppendGroupNorm(node, value, std::move(norm));
  }
  return absl::UnimplementedError(
      "normalises along other axes than the channels of a pixel, or the image and its channels");
}

// LayerNormalization has a bias, RMSNormalization has none.
absl::Status Builder::AddPixelNorm(Node& node) {
  ASSIGN_OR_RETURN(const Value* input, Tensor(node, 0));
  ASSIGN_OR_RETURN(const int64_t given, node.attributes.Int("axis", -1));
  ASSIGN_OR_RETURN(const int64_t axis, ToAxis(given, input->view.size()));
  const std::vector<int64_t> axes = AllAxes(axis, input->view.size());
  if (!AreChannels(input->view, axes, Channels(*input))) {
    return absl::UnimplementedError(absl::StrCat(
        "is only supported along the channels, between transpositions to the end and back: axis ",
        given, " is not supported, only that of the channels"));
  }
  RETURN_IF_ERROR(node.attributes.Expect("stash_type", 1));
  Layer layer = NewLayer(node, Op::kPixelNorm, {input});
  layer.centred = node.proto.op_type() == "LayerNormalization";
  ASSIGN_OR_RETURN(layer.epsilon, node.attributes.Float("epsilon", 1e-5f));
  ASSIGN_OR_RETURN(const TensorProto* scale, Constant(node, 1));
  ASSIGN_OR_RETURN(layer.weights, ReadPerChannel(*scale, *input));
  layer.bias.assign(layer.out_channels, 0.0f);
  if (node.Has(2)) {
    ASSIGN_OR_RETURN(const TensorProto* bias, Constant(node, 2));
    ASSIGN_OR_RETURN(layer.bias, ReadPerChannel(*bias, *input));
  }
  return AppendNorm(node, *input, axes, std::move(layer));
}

// See patterns.h.
absl::Status Builder::AddNormalize(Node& node) {
  ASSIGN_OR_RETURN(const Value* input, Tensor(node, 0));
  Layer layer = NewLayer(node, Op::kPixelNorm, {input});
  ASSIGN_OR_RETURN(const std::vector<int64_t> given, node.attributes.Ints("axes"));
  ASSIGN_OR_RETURN(const std::vector<int64_t> axes, ToAxes(given, input->view.size()));
  ASSIGN_OR_RETURN(layer.epsilon, node.attributes.Float("epsilon", 0));
  ASSIGN_OR_RETURN(const int64_t centred, node.attributes.Int("centred", 1));
  layer.centred = centred != 0;
  layer.weights.assign(layer.out_channels, 1.0f);
  layer.bias.assign(layer.out_channels, 0.0f);
  return AppendNorm(node, *input, axes, std::move(layer));
}

// Over all axes behind the second; it counts the groups of reshaped planes.
absl::Status Builder::AddInstanceNormalization(Node& node) {
  ASSIGN_OR_RETURN(const Value* input, Tensor(node, 0));
  if (input->view.size() < 3) return absl::InvalidArgumentError("has fewer than three axes");
  Layer layer = NewLayer(node, Op::kPixelNorm, {input});
  ASSIGN_OR_RETURN(layer.epsilon, node.attributes.Float("epsilon", 1e-5f));
  for (const size_t i : {1, 2}) {
    ASSIGN_OR_RETURN(const TensorProto* constant, Constant(node, i));
    TensorProto behind = *constant;  // [groups, 1 ...]
    for (size_t axis = 2; axis < input->view.size(); ++axis) behind.add_dims(1);
    ASSIGN_OR_RETURN((i == 1 ? layer.weights : layer.bias), ReadPerChannel(behind, *input));
  }
  return AppendNorm(node, *input, AllAxes(2, input->view.size()), std::move(layer));
}

// One factor and offset for each channel or, before operator set 21, for each group.
absl::Status Builder::AddGroupNormalization(Node& node) {
  ASSIGN_OR_RETURN(const Value* input, Planes(node, 0));
  Layer layer = NewLayer(node, Op::kGroupNorm, {input});
  ASSIGN_OR_RETURN(const int64_t groups, node.attributes.Int("num_groups", 0));
  ASSIGN_OR_RETURN(layer.epsilon, node.attributes.Float("epsilon", 1e-5f));
  RETURN_IF_ERROR(node.attributes.Expect("stash_type", 1));
  if (groups < 1 || layer.in_channels % groups != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot share ", layer.in_channels, " channels among ", groups, " groups"));
  }
  layer.groups = static_cast<int>(groups);
  for (const size_t i : {1, 2}) {
    ASSIGN_OR_RETURN(const TensorProto* constant, Constant(node, i));
    ASSIGN_OR_RETURN(const std::vector<float> values, ReadFloats(*constant));
    const size_t run = values.empty() ? 0 : layer.in_channels / values.size();
    if (values.size() != static_cast<size_t>(groups) && run != 1) {
      return absl::InvalidArgumentError(absl::StrCat("has a constant of ", DescribeShape(*constant),
                                                     " for ", groups, " groups of ",
                                                     layer.in_channels, " channels"));
    }
    std::vector<float>& channels = i == 1 ? layer.weights : layer.bias;
    for (int c = 0; c < layer.in_channels; ++c) channels.push_back(values[c / run]);
  }
  return AppendGroupNorm(node, *input, std::move(layer));
}

// (x - mean) / sqrt(variance + epsilon) * scale + bias, all constants by now.
absl::Status Builder::AddBatchNormalization(Node& node) {
  ASSIGN_OR_RETURN(const Value* input, Planes(node, 0));
  ASSIGN_OR_RETURN(const float epsilon, node.attributes.Float("epsilon", 1e-5f));
  RETURN_IF_ERROR(node.attributes.Float("momentum", 0).status());
  RETURN_IF_ERROR(node.attributes.Expect("training_mode", 0));
  RETURN_IF_ERROR(node.attributes.Expect("spatial", 1));
  const size_t channels = Channels(*input);
  std::vector<float> constants[4];  // scale, bias, mean, variance
  for (size_t i = 0; i < 4; ++i) {
    ASSIGN_OR_RETURN(const TensorProto* constant, Constant(node, i + 1));
    ASSIGN_OR_RETURN(constants[i], ReadFloats(*constant));
    if (constants[i].size() != channels) {
      return absl::InvalidArgumentError(absl::StrCat("has a constant of ", DescribeShape(*constant),
                                                     " for ", channels, " channels"));
    }
  }
  auto& [factor, offset, mean, variance] = constants;
  for (size_t c = 0; c < channels; ++c) {
    const double scaled = factor[c] / std::sqrt(double{variance[c]} + epsilon);
    offset[c] = static_cast<float>(offset[c] - mean[c] * scaled);
    factor[c] = static_cast<float>(scaled);
  }
  return AddAffine(node, *input, std::move(factor), std::move(offset));
}

}  // namespace upscaled::onnx
