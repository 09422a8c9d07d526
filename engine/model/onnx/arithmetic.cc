// Operators for each value by itself, or with the same value of another tensor.
#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/model/fuse.h"
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
                       : type == "Swish"    ? Activation::kSilu
                                            : Activation::kSigmoid;
    if (type == "Swish") RETURN_IF_ERROR(node.attributes.ExpectFloat("alpha", 1));
  }
  return AppendActivation(node, *input, std::move(layer));
}

// tanh(v) = 2 sigmoid(2 v) - 1
absl::Status Builder::AddTanh(Node& node) {
  ASSIGN_OR_RETURN(const Value* input, Tensor(node, 0));
  const size_t channels = Channels(*input);
  Layer doubled = NewLayer(node, Op::kAffine, {input});
  doubled.weights.assign(channels, 2.0f);
  doubled.bias.assign(channels, 0.0f);
  Value value = *input;
  if (value.shared || !FuseAffine(doubled, network_.layers[value.layer])) {
    ASSIGN_OR_RETURN(value.layer, AppendUnnamed(std::move(doubled)));
  }
  Layer sigmoid = NewLayer(node, Op::kActivation, {&value});
  sigmoid.activation = Activation::kSigmoid;
  if (!FuseActivation(sigmoid, network_.layers[value.layer])) {
    ASSIGN_OR_RETURN(value.layer, AppendUnnamed(std::move(sigmoid)));
  }
  value.shared = true;  // so that nothing is fused before the curve
  return AddAffine(node, value, std::vector<float>(channels, 2.0f),
                   std::vector<float>(channels, -1.0f));
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
    const std::optional<double> value = ReadScalar(*bound);
    if (!value) {
      return absl::InvalidArgumentError(
          absl::StrCat("has a bound of ", DescribeShape(*bound), ", must be one number"));
    }
    (i == 1 ? layer.clip_min : layer.clip_max) = static_cast<float>(*value);
  }
  return AppendActivation(node, *input, std::move(layer));
}

absl::Status Builder::AddAffine(const Node& node, const Value& value, std::vector<float> factor,
                                std::vector<float> offset) {
  Layer layer = NewLayer(node, Op::kAffine, {&value});
  layer.weights = std::move(factor);
  layer.bias = std::move(offset);
  return AppendAffine(node, value, std::move(layer));
}

// Values per channel of the whole image scale planes; otherwise both are seen the same way, or as
// planes; one channel may stand for all.
absl::Status Builder::AddJoin(const Node& node, Op op, Value first, Value second) {
  if (first.view.size() != second.view.size()) {
    return absl::UnimplementedError("has inputs of different ranks");
  }
  if (HasCut(first) != HasCut(second)) {
    RETURN_IF_ERROR(HasCut(first) ? GiveSlack(node, first, second)
                                  : GiveSlack(node, second, first));
  }
  // One value per channel comes second.
  const bool of_image = per_image_[first.layer] || per_image_[second.layer];
  if (op == Op::kMul && per_image_[first.layer] && !per_image_[second.layer]) {
    std::swap(first, second);
  }
  const auto fits = [](const Axis& a, const Axis& b) { return b.empty() || a == b; };
  const bool scales = of_image &&
                      std::equal(first.view.begin(), first.view.end(), second.view.begin(), fits) &&
                      Channels(first) == Channels(second);
  const bool alike =
      first.view == second.view && first.cut == second.cut && Channels(first) == Channels(second);
  if (scales || alike) return AppendLike(node, NewLayer(node, op, {&first, &second}), first);
  const bool last = AreChannelsLast(first) || AreChannelsLast(second);
  if (last && first.view.size() == 4 && !of_image && !HasCut(first) && !HasCut(second)) {
    // The sides may differ for images in need of padding to multiples.
    for (Value* value : {&first, &second}) {
      RETURN_IF_ERROR(RearrangeChannelsLast(node.proto.output(0), *value));
    }
    return AppendLike(node, NewLayer(node, op, {&first, &second}), first);
  }
  for (Value* value : {&first, &second}) {
    const View& other = value == &first ? second.view : first.view;
    if (HasCut(*value)) {
      return absl::UnimplementedError("joins planes that were cut to the image's size");
    }
    if (other.size() == 4 && value->view[1].empty() && !other[1].empty()) {
      value->view[1] = {{Digit::kNothing, SideOf(other[1]), 0}};
    }
    if (!ArePlanes(*value)) RETURN_IF_ERROR(Rearrange(node.proto.output(0), *value));
  }
  return Append(node, NewLayer(node, op, {&first, &second}));
}

absl::Status Builder::AddAdd(Node& node) {
  for (const size_t i : {0, 1}) {
    if (!node.HasConstant(i)) continue;
    ASSIGN_OR_RETURN(const Value* other, Tensor(node, 1 - i));
    ASSIGN_OR_RETURN(std::vector<float> offset, ReadPerChannel(*node.inputs[i]->constant, *other));
    return AddAffine(node, *other, std::vector<float>(Channels(*other), 1.0f), std::move(offset));
  }
  ASSIGN_OR_RETURN(const Value* first, Tensor(node, 0));
  ASSIGN_OR_RETURN(const Value* second, Tensor(node, 1));
  return AddJoin(node, Op::kAdd, *first, *second);
}

absl::Status Builder::AddMul(Node& node) {
  for (const size_t i : {0, 1}) {
    if (!node.HasConstant(i)) continue;
    ASSIGN_OR_RETURN(const Value* other, Tensor(node, 1 - i));
    ASSIGN_OR_RETURN(std::vector<float> factor, ReadPerChannel(*node.inputs[i]->constant, *other));
    return AddAffine(node, *other, std::move(factor), std::vector<float>(Channels(*other), 0.0f));
  }
  ASSIGN_OR_RETURN(const Value* first, Tensor(node, 0));
  ASSIGN_OR_RETURN(const Value* second, Tensor(node, 1));
  return AddJoin(node, Op::kMul, *first, *second);
}

// By a constant: its reciprocal, rounded once more.
absl::Status Builder::AddDiv(Node& node) {
  ASSIGN_OR_RETURN(const Value* input, Tensor(node, 0));
  if (!node.HasConstant(1)) {
    return absl::UnimplementedError("is only supported by a constant, and in normalisations");
  }
  ASSIGN_OR_RETURN(std::vector<float> factor, ReadPerChannel(*node.inputs[1]->constant, *input));
  for (float& value : factor) value = 1 / value;
  return AddAffine(node, *input, std::move(factor), std::vector<float>(Channels(*input), 0.0f));
}

absl::Status Builder::AddNeg(Node& node) {
  ASSIGN_OR_RETURN(const Value* input, Tensor(node, 0));
  const size_t channels = Channels(*input);
  return AddAffine(node, *input, std::vector<float>(channels, -1.0f),
                   std::vector<float>(channels, 0.0f));
}

absl::Status Builder::AddPow(Node& node) {
  ASSIGN_OR_RETURN(const Value* input, Tensor(node, 0));
  ASSIGN_OR_RETURN(const TensorProto* exponent, Constant(node, 1));
  const std::optional<double> power = ReadScalar(*exponent);
  if (power == 1) return PassThrough(node, *input);
  if (power == 2) return AddJoin(node, Op::kMul, *input, *input);
  return absl::UnimplementedError("is only supported for the powers 1 and 2");
}

// a - b is a + -1 * b.
absl::Status Builder::AddSub(Node& node) {
  for (const size_t i : {0, 1}) {
    if (!node.HasConstant(i)) continue;
    ASSIGN_OR_RETURN(const Value* other, Tensor(node, 1 - i));
    ASSIGN_OR_RETURN(std::vector<float> offset, ReadPerChannel(*node.inputs[i]->constant, *other));
    if (i == 1) {
      for (float& value : offset) value = -value;
    }
    return AddAffine(node, *other, std::vector<float>(Channels(*other), i == 1 ? 1.0f : -1.0f),
                     std::move(offset));
  }
  ASSIGN_OR_RETURN(const Value* first, Tensor(node, 0));
  ASSIGN_OR_RETURN(const Value* second, Tensor(node, 1));
  Layer layer = NewLayer(node, Op::kAffine, {second});
  layer.weights.assign(layer.out_channels, -1.0f);
  layer.bias.assign(layer.out_channels, 0.0f);
  Value negative = *second;
  ASSIGN_OR_RETURN(negative.layer, AppendUnnamed(std::move(layer)));
  return AddJoin(node, Op::kAdd, *first, negative);
}

}  // namespace upscaled::onnx
