#include "engine/model/onnx/builder.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/status_macros.h"
#include "engine/model/border.h"
#include "engine/model/fuse.h"
#include "engine/model/limits.h"
#include "engine/model/onnx/tensor.h"
#include "engine/model/quote.h"

namespace upscaled::onnx {
namespace {

constexpr int kImageChannels = 3;

absl::Status CheckImage(const ValueInfoProto& info) {
  const TypeProto::Tensor& type = info.type().tensor_type();
  if (!IsFloatType(type.elem_type())) {
    return absl::UnimplementedError(absl::StrCat("input ", Quote(info.name()), " has the type ",
                                                 DataTypeName(type.elem_type()),
                                                 ", must be float in 0..1"));
  }
  if (!type.has_shape()) return absl::OkStatus();
  const auto& dims = type.shape().dim();
  const auto allows = [&dims](int axis, int64_t value) {
    // Zero and negative numbers stand for any, in some exporters.
    return dims[axis].dim_value() <= 0 || dims[axis].dim_value() == value;
  };
  if (dims.size() == 4 && allows(0, 1) && allows(1, kImageChannels)) return absl::OkStatus();
  std::vector<std::string> sides;
  for (const auto& dim : dims) {
    sides.push_back(dim.dim_value() > 0 ? absl::StrCat(dim.dim_value()) : "?");
    if (sides.size() > 8) break;
  }
  return absl::UnimplementedError(absl::StrCat("input ", Quote(info.name()), " has the shape [",
                                               absl::StrJoin(sides, ", "),
                                               "], must be [1, 3, height, width]"));
}

}  // namespace

std::span<const Builder::Operator> Builder::Operators() {
  static constexpr Operator kOperators[] = {
      {"Conv", 2, 3, &Builder::AddConv},
      {"ConvTranspose", 2, 3, &Builder::AddConvTranspose},
      {"Gemm", 2, 3, &Builder::AddGemm},
      {"Relu", 1, 1, &Builder::AddRelu},
      {"LeakyRelu", 1, 1, &Builder::AddLeakyRelu},
      {"PRelu", 2, 2, &Builder::AddPRelu},
      {"Sigmoid", 1, 1, &Builder::AddCurve},
      {"Gelu", 1, 1, &Builder::AddCurve},
      {"Mish", 1, 1, &Builder::AddCurve},
      {"Softplus", 1, 1, &Builder::AddCurve},
      {"Clip", 1, 3, &Builder::AddClip},
      {"Add", 2, 2, &Builder::AddAdd},
      {"Sub", 2, 2, &Builder::AddSub},
      {"Mul", 2, 2, &Builder::AddMul},
      {"GlobalAveragePool", 1, 1, &Builder::AddGlobalAveragePool},
      {"ReduceMean", 1, 2, &Builder::AddReduceMean},
      {"LayerNormalization", 2, 3, &Builder::AddPixelNorm},
      {"RMSNormalization", 2, 2, &Builder::AddPixelNorm},
      {"Resize", 1, 4, &Builder::AddResize},
      {"Upsample", 1, 2, &Builder::AddUpsample},
      {"Pad", 1, 4, &Builder::AddPad},
      {"Slice", 1, 5, &Builder::AddSlice},
      {"Concat", 1, kMaxConcatInputs, &Builder::AddConcat},
      {"DepthToSpace", 1, 1, &Builder::AddDepthToSpace},
      {"Reshape", 2, 2, &Builder::AddReshape},
      {"Transpose", 1, 1, &Builder::AddTranspose},
      {"Cast", 1, 1, &Builder::AddCast},
      {"Constant", 0, 0, &Builder::AddConstant},
      {"Identity", 1, 1, &Builder::AddIdentity},
  };
  return kOperators;
}

absl::Status Builder::AddInput() {
  for (const TensorProto& tensor : graph_.initializer()) {
    values_[tensor.name()] = {.form = Form::kConstant, .constant = &tensor};
  }
  for (const NodeProto& node : graph_.node()) {
    for (const std::string& name : node.input()) ++readers_[name];
  }
  for (const ValueInfoProto& output : graph_.output()) ++readers_[output.name()];

  for (const ValueInfoProto& input : graph_.input()) {
    const auto initialised = values_.find(input.name());
    if (initialised != values_.end() && initialised->second.constant != nullptr) continue;
    if (!network_.layers.empty()) {
      return absl::UnimplementedError(absl::StrCat("has the inputs ",
                                                   Quote(network_.layers[0].name), " and ",
                                                   Quote(input.name()), ", only one is supported"));
    }
    RETURN_IF_ERROR(CheckImage(input));
    network_.layers.push_back(
        {.op = Op::kInput, .name = input.name(), .out_channels = kImageChannels});
    per_image_.push_back(false);
    values_[input.name()] = {.layer = 0, .shared = readers_[input.name()] > 1};
  }
  if (network_.layers.empty()) return absl::InvalidArgumentError("has no input");
  return absl::OkStatus();
}

absl::Status Builder::Add(const NodeProto& proto) {
  const auto op = std::find_if(Operators().begin(), Operators().end(),
                               [&](const Operator& o) { return proto.op_type() == o.name; });
  if (op == Operators().end() || (!proto.domain().empty() && proto.domain() != "ai.onnx")) {
    std::vector<std::string> known;
    for (const Operator& o : Operators()) known.emplace_back(o.name);
    const std::string of = proto.domain().empty() ? "" : " of domain " + Quote(proto.domain());
    return absl::UnimplementedError(absl::StrCat(
        "the operator", of, " is not supported; supported are ", absl::StrJoin(known, ", ")));
  }
  const size_t count = proto.input_size();
  if (count < op->min_inputs || count > op->max_inputs || proto.output_size() != 1) {
    return absl::InvalidArgumentError(absl::StrCat("has ", count, " inputs and ",
                                                   proto.output_size(), " outputs, must have ",
                                                   op->min_inputs, "..", op->max_inputs, " and 1"));
  }
  Node node(proto);
  for (const std::string& name : proto.input()) {
    const auto value = values_.find(name);
    if (!name.empty() && value == values_.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("reads ", Quote(name), ", which no earlier node gives"));
    }
    node.inputs.push_back(name.empty() ? nullptr : &value->second);
  }
  RETURN_IF_ERROR((this->*op->add)(node));
  return node.attributes.CheckAllRead();
}

absl::StatusOr<Network> Builder::Finish() {
  if (graph_.output_size() != 1) {
    return absl::UnimplementedError(
        absl::StrCat("has ", graph_.output_size(), " outputs, only one is supported"));
  }
  const std::string& name = graph_.output(0).name();
  const auto output = values_.find(name);
  if (output == values_.end() || output->second.form != Form::kPlanes ||
      output->second.layer + 1 != static_cast<int>(network_.layers.size())) {
    return absl::InvalidArgumentError(
        absl::StrCat("output ", Quote(name), " is not what the last node that computes gives"));
  }
  RETURN_IF_ERROR(InferBorder(network_));
  return std::move(network_);
}

Layer Builder::NewLayer(const Node& node, Op op, std::initializer_list<const Value*> inputs) const {
  Layer layer;
  layer.op = op;
  layer.name = node.proto.name().empty() ? node.proto.output(0) : node.proto.name();
  for (const Value* input : inputs) layer.inputs.push_back(input->layer);
  layer.in_channels = network_.layers[layer.inputs[0]].out_channels;
  layer.out_channels = layer.in_channels;
  return layer;
}

absl::StatusOr<int> Builder::AppendUnnamed(Layer layer) {
  per_image_.push_back(layer.op == Op::kGlobalAveragePool || per_image_[layer.inputs[0]]);
  network_.layers.push_back(std::move(layer));
  RETURN_IF_ERROR(network_.CheckCounts());
  return static_cast<int>(network_.layers.size()) - 1;
}

absl::Status Builder::Append(const Node& node, Layer layer, Form form) {
  ASSIGN_OR_RETURN(const int index, AppendUnnamed(std::move(layer)));
  return SetOutput(node, {.form = form, .layer = index});
}

absl::Status Builder::AppendActivation(const Node& node, const Value& value, Layer activation) {
  if (value.shared || !FuseActivation(activation, network_.layers[value.layer])) {
    return Append(node, std::move(activation), value.form);
  }
  return PassThrough(node, value);
}

absl::Status Builder::AppendAffine(const Node& node, const Value& value, Layer affine) {
  if (value.shared || !FuseAffine(affine, network_.layers[value.layer])) {
    return Append(node, std::move(affine), value.form);
  }
  return PassThrough(node, value);
}

absl::Status Builder::PassThrough(const Node& node, Value value) {
  return SetOutput(node, std::move(value));
}

absl::Status Builder::SetOutput(const Node& node, Value value) {
  const std::string& name = node.proto.output(0);
  value.shared = value.shared || readers_[name] > 1;
  if (!name.empty() && values_.emplace(name, std::move(value)).second) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("gives ", Quote(name), ", which is empty or given already"));
}

absl::StatusOr<const Builder::Value*> Builder::Tensor(const Node& node, size_t i) const {
  const Value* value = i < node.inputs.size() ? node.inputs[i] : nullptr;
  if (value == nullptr) return absl::InvalidArgumentError(absl::StrCat("lacks input ", i));
  if (value->form == Form::kPlanes || value->form == Form::kFlat) return value;
  if (value->form == Form::kConstant) {
    return absl::UnimplementedError(absl::StrCat("input ", i, " is a constant"));
  }
  return absl::UnimplementedError(
      absl::StrCat("input ", i, " is an unfinished ",
                   value->form == Form::kHalfCropped    ? "crop of one axis"
                   : value->form == Form::kChannelsLast ? "normalisation of pixels"
                                                        : "pixel shuffle"));
}

absl::StatusOr<const Builder::Value*> Builder::Planes(const Node& node, size_t i) const {
  ASSIGN_OR_RETURN(const Value* value, Tensor(node, i));
  if (value->form == Form::kPlanes) return value;
  return absl::UnimplementedError(absl::StrCat("input ", i, " has lost its height and width"));
}

absl::StatusOr<const TensorProto*> Builder::Constant(const Node& node, size_t i) const {
  const Value* value = i < node.inputs.size() ? node.inputs[i] : nullptr;
  if (value != nullptr && value->form == Form::kConstant) return value->constant;
  return absl::UnimplementedError(absl::StrCat(
      "input ", i, value == nullptr ? " is left out" : " is computed", ", must be a constant"));
}

absl::StatusOr<std::vector<int64_t>> Builder::IntsOf(Node& node, std::string_view name, size_t i) {
  if (i >= node.inputs.size() || node.inputs[i] == nullptr) return node.attributes.Ints(name);
  ASSIGN_OR_RETURN(const TensorProto* constant, Constant(node, i));
  return ReadInts(*constant);
}

absl::StatusOr<std::vector<float>> Builder::ReadPerChannel(const TensorProto& constant,
                                                           const Value& value) const {
  const int channels = Channels(value);
  const int behind = value.form == Form::kFlat ? 0 : 2;  // axes behind that of the channels
  const int axis = constant.dims_size() - 1 - behind;
  ASSIGN_OR_RETURN(const int64_t count, ValueCount(constant));
  const bool per_channel = axis >= 0 && constant.dims(axis) == channels && count == channels;
  if (constant.dims_size() > 4 || (count != 1 && !per_channel)) {
    return absl::UnimplementedError(absl::StrCat("a constant of ", DescribeShape(constant),
                                                 " is not supported, only one number or one for ",
                                                 "each of ", channels, " channels"));
  }
  ASSIGN_OR_RETURN(std::vector<float> values, ReadFloats(constant));
  if (count == 1) values.assign(channels, values[0]);
  return values;
}

}  // namespace upscaled::onnx
