// Operators that compute every value by itself, or from its like in another tensor.
#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/model/onnx/builder.h"
#include "engine/model/onnx/tensor.h"
#include "engine/model/quote.h"

namespace upscaled::onnx {

absl::Status Builder::AddRelu(Node& node) {
  ASSIGN_OR_RETURN(const Value* input, Tensor(node, 0));
  Layer layer = NewLayer(node, Op::kActivation, {input});
  layer.activation = Activation::kRelu;
  return AppendActivation(node, *input, std::move(layer));
}

absl::Status Builder::AddLeakyRelu(Node& node) {
  ASSIGN_OR_RETURN(const Value* input, Tensor(node, 0));
  Layer layer = NewLayer(node, Op::kActivation, {input});
  layer.activation = Activation::kLeakyRelu;
  ASSIGN_OR_RETURN(const float slope, node.attributes.Float("alpha", 0.01f));
  layer.slope = {slope};
  return AppendActivation(node, *input, std::move(layer));
}

absl::Status Builder::AddPRelu(Node& node) {
  ASSIGN_OR_RETURN(const Value* input, Tensor(node, 0));
  ASSIGN_OR_RETURN(const TensorProto* slopes, Constant(node, 1));
  Layer layer = NewLayer(node, Op::kActivation, {input});
  layer.activation = Activation::kPRelu;
  ASSIGN_OR_RETURN(layer.slope, ReadPerChannel(*slopes, *input));
  return AppendActivation(node, *input, std::move(layer));
}

absl::Status Builder::AddCurve(Node& node) {
  ASSIGN_OR_RETURN(const Value* input, Tensor(node, 0));
  Layer layer = NewLayer(node, Op::kActivation, {input});
  const std::string& type = node.proto.op_type();
  if (type == "Gelu") {
    const absl::StatusOr<std::string> form = node.attributes.String("approximate", "none");
    RETURN_IF_ERROR(form.status());
    if (*form != "none" && *form != "tanh") {
      return absl::InvalidArgumentError(
          absl::StrCat("approximate is ", Quote(*form), ", must be 'none' or 'tanh'"));
    }
    layer.activation = *form == "tanh" ? Activation::kGeluTanh : Activation::kGelu;
  } else {
    layer.activation = type == "Mish"       ? Activation::kMish
                       : type == "Softplus" ? Activation::kSoftplus
                                            : Activation::kSigmoid;
  }
  return AppendActivation(node, *input, std::move(layer));
}

absl::Status Builder::AddClip(Node& node) {
  ASSIGN_OR_RETURN(const Value* input, Tensor(node, 0));
  Layer layer = NewLayer(node, Op::kActivation, {input});
  layer.activation = Activation::kClip;
  ASSIGN_OR_RETURN(layer.clip_min,
                   node.attributes.Float("min", std::numeric_limits<float>::lowest()));
  ASSIGN_OR_RETURN(layer.clip_max, node.attributes.Float("max", std::numeric_limits<float>::max()));
  for (const size_t i : {1, 2}) {
    if (i >= node.inputs.size() || node.inputs[i] == nullptr) continue;
    ASSIGN_OR_RETURN(const TensorProto* bound, Constant(node, i));
    ASSIGN_OR_RETURN(const std::vector<float> values, ReadFloats(*bound));
    if (values.size() != 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("has a bound of ", DescribeShape(*bound), ", must be one number"));
    }
    (i == 1 ? layer.clip_min : layer.clip_max) = values[0];
  }
  return AppendActivation(node, *input, std::move(layer));
}

absl::Status Builder::AddAffine(const Node& node, const Value& value, const TensorProto* factor,
                                const TensorProto* offset) {
  Layer layer = NewLayer(node, Op::kAffine, {&value});
  layer.weights.assign(layer.out_channels, 1.0f);
  layer.bias.assign(layer.out_channels, 0.0f);
  if (factor != nullptr) {
    ASSIGN_OR_RETURN(layer.weights, ReadPerChannel(*factor, value));
  }
  if (offset != nullptr) {
    ASSIGN_OR_RETURN(layer.bias, ReadPerChannel(*offset, value));
  }
  return AppendAffine(node, value, std::move(layer));
}

absl::Status Builder::AddJoin(const Node& node, Op op, const Value& first, const Value& second) {
  if (first.form != second.form) {
    return absl::UnimplementedError("has inputs of different ranks");
  }
  // One value per channel comes second.
  const bool swap = op == Op::kMul && per_image_[first.layer] && !per_image_[second.layer];
  return Append(node, NewLayer(node, op, {swap ? &second : &first, swap ? &first : &second}),
                first.form);
}

absl::Status Builder::AddAdd(Node& node) {
  for (const size_t i : {0, 1}) {
    const Value* input = node.inputs[i];
    if (input == nullptr || input->form != Form::kConstant) continue;
    ASSIGN_OR_RETURN(const Value* other, Tensor(node, 1 - i));
    return AddAffine(node, *other, nullptr, input->constant);
  }
  ASSIGN_OR_RETURN(const Value* first, Tensor(node, 0));
  ASSIGN_OR_RETURN(const Value* second, Tensor(node, 1));
  return AddJoin(node, Op::kAdd, *first, *second);
}

absl::Status Builder::AddMul(Node& node) {
  for (const size_t i : {0, 1}) {
    const Value* input = node.inputs[i];
    if (input == nullptr || input->form != Form::kConstant) continue;
    ASSIGN_OR_RETURN(const Value* other, Tensor(node, 1 - i));
    return AddAffine(node, *other, input->constant, nullptr);
  }
  ASSIGN_OR_RETURN(const Value* first, Tensor(node, 0));
  ASSIGN_OR_RETURN(const Value* second, Tensor(node, 1));
  return AddJoin(node, Op::kMul, *first, *second);
}

// a - b is a + -1 * b.
absl::Status Builder::AddSub(Node& node) {
  const auto is_constant = [&node](size_t i) {
    return node.inputs[i] != nullptr && node.inputs[i]->form == Form::kConstant;
  };
  ASSIGN_OR_RETURN(const Value* computed, Tensor(node, is_constant(1) ? 0 : 1));
  Layer layer = NewLayer(node, Op::kAffine, {computed});
  layer.bias.assign(layer.out_channels, 0.0f);
  layer.weights.assign(layer.out_channels, is_constant(1) ? 1.0f : -1.0f);
  for (const size_t i : {0, 1}) {
    if (!is_constant(i)) continue;
    ASSIGN_OR_RETURN(layer.bias, ReadPerChannel(*node.inputs[i]->constant, *computed));
    if (i == 1) {
      for (float& offset : layer.bias) offset = -offset;
    }
    return AppendAffine(node, *computed, std::move(layer));
  }
  ASSIGN_OR_RETURN(const Value* first, Tensor(node, 0));
  Value negative = *computed;
  ASSIGN_OR_RETURN(negative.layer, AppendUnnamed(std::move(layer)));
  return AddJoin(node, Op::kAdd, *first, negative);
}

absl::Status Builder::AddGlobalAveragePool(Node& node) {
  ASSIGN_OR_RETURN(const Value* input, Planes(node, 0));
  return Append(node, NewLayer(node, Op::kGlobalAveragePool, {input}));
}

absl::Status Builder::AddReduceMean(Node& node) {
  ASSIGN_OR_RETURN(const Value* input, Planes(node, 0));
  ASSIGN_OR_RETURN(const std::vector<int64_t> axes, IntsOf(node, "axes", 1));
  ASSIGN_OR_RETURN(const int64_t keep, node.attributes.Int("keepdims", 1));
  RETURN_IF_ERROR(node.attributes.Expect("noop_with_empty_axes", 0));
  std::vector<int64_t> reduced;
  for (const int64_t axis : axes) reduced.push_back(axis < 0 ? axis + 4 : axis);
  std::sort(reduced.begin(), reduced.end());
  if (reduced != std::vector<int64_t>{2, 3}) {
    return absl::UnimplementedError(
        absl::StrCat("axes ", List(axes), " are not supported, only height and width"));
  }
  return Append(node, NewLayer(node, Op::kGlobalAveragePool, {input}),
                keep != 0 ? Form::kPlanes : Form::kFlat);
}

// Along channels that lie last, as exporters write it; the bias is a LayerNormalization's.
absl::Status Builder::AddPixelNorm(Node& node) {
  const Value* input = node.inputs[0];
  if (input == nullptr || input->form != Form::kChannelsLast) {
    return absl::UnimplementedError(
        "is only supported along the channels, between transpositions to the end and back");
  }
  ASSIGN_OR_RETURN(const int64_t axis, node.attributes.Int("axis", -1));
  if (axis != -1 && axis != 3) {
    return absl::UnimplementedError(
        absl::StrCat("axis ", axis, " is not supported, only that of the channels"));
  }
  RETURN_IF_ERROR(node.attributes.Expect("stash_type", 1));
  Layer layer = NewLayer(node, Op::kPixelNorm, {input});
  layer.centred = node.proto.op_type() == "LayerNormalization";
  ASSIGN_OR_RETURN(layer.epsilon, node.attributes.Float("epsilon", 1e-5f));
  Value flat = *input;  // whose channels are the last axis
  flat.form = Form::kFlat;
  ASSIGN_OR_RETURN(const TensorProto* scale, Constant(node, 1));
  ASSIGN_OR_RETURN(layer.weights, ReadPerChannel(*scale, flat));
  layer.bias.assign(layer.out_channels, 0.0f);
  if (node.inputs.size() > 2 && node.inputs[2] != nullptr) {
    ASSIGN_OR_RETURN(const TensorProto* bias, Constant(node, 2));
    ASSIGN_OR_RETURN(layer.bias, ReadPerChannel(*bias, flat));
  }
  return Append(node, std::move(layer), Form::kChannelsLast);
}

}  // namespace upscaled::onnx
