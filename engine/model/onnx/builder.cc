#include "engine/model/onnx/builder.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/status_macros.h"
#include "engine/model/border.h"
#include "engine/model/fuse.h"
#include "engine/model/limits.h"
#include "engine/model/onnx/attention.h"
#include "engine/model/onnx/evaluate.h"
#include "engine/model/onnx/patterns.h"
#include "engine/model/onnx/tensor.h"
#include "engine/model/quote.h"
#include "engine/model/shapes.h"

namespace upscaled::onnx {
namespace {

constexpr int kImageChannels = 3;
constexpr size_t kMaxSplits = 64;

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

// The probes of one side of the image: the file's own, or many.
PerProbe ProbesOf(const ValueInfoProto& info, int axis, int exported, const PerProbe& any) {
  const TypeProto::Tensor& type = info.type().tensor_type();
  int64_t named = type.has_shape() ? type.shape().dim(axis).dim_value() : 0;
  if (named <= 0) named = exported;
  return named > 0 ? SameForAll(std::min<int64_t>(named, kMaxSidePx)) : any;
}

// Missing operators, by names more telling about a network.
struct Foreign {
  const char* name;
  const char* meaning;
};
constexpr Foreign kForeign[] = {
    {"Softmax", "attention"},
    {"LogSoftmax", "attention"},
    {"Attention", "attention"},
    {"MultiHeadAttention", "attention"},
    {"Einsum", "attention"},
    {"GridSample", "sampling at places that follow from the image (DySample, warping)"},
    {"DeformConv", "sampling at places that follow from the image"},
    {"MaxPool", "pooling to smaller planes"},
    {"AveragePool", "pooling to smaller planes"},
    {"GlobalMaxPool", "a maximum over the image"},
    {"ReduceMax", "a maximum over values"},
    {"ArgMax", "a choice by the image"},
    {"TopK", "a choice by the image"},
    {"NonZero", "a choice by the image"},
    {"If", "control flow"},
    {"Loop", "control flow"},
    {"Scan", "control flow"},
    {"DFT", "a Fourier transform"},
    {"Erf", "an error function outside of GELU"},
    {"QuantizeLinear", "quantized arithmetic"},
    {"DequantizeLinear", "quantized arithmetic"},
    {"QLinearConv", "quantized arithmetic"},
    {"ConvInteger", "quantized arithmetic"},
};

}  // namespace

std::span<const Builder::Operator> Builder::Operators() {
  static constexpr Operator kOperators[] = {
      {"Conv", 2, 3, &Builder::AddConv},
      {"ConvTranspose", 2, 3, &Builder::AddConvTranspose},
      {"Gemm", 2, 3, &Builder::AddGemm},
      {"MatMul", 2, 2, &Builder::AddMatMul},
      {"Relu", 1, 1, &Builder::AddRelu},
      {"LeakyRelu", 1, 1, &Builder::AddLeakyRelu},
      {"PRelu", 2, 2, &Builder::AddPRelu},
      {"Sigmoid", 1, 1, &Builder::AddCurve},
      {"Gelu", 1, 1, &Builder::AddCurve},
      {"Mish", 1, 1, &Builder::AddCurve},
      {"Softplus", 1, 1, &Builder::AddCurve},
      {"Swish", 1, 1, &Builder::AddCurve},
      {"Tanh", 1, 1, &Builder::AddTanh},
      {"Clip", 1, 3, &Builder::AddClip},
      {"Add", 2, 2, &Builder::AddAdd},
      {"Sub", 2, 2, &Builder::AddSub},
      {"Mul", 2, 2, &Builder::AddMul},
      {"Div", 2, 2, &Builder::AddDiv},
      {"Neg", 1, 1, &Builder::AddNeg},
      {"Pow", 2, 2, &Builder::AddPow},
      {"GlobalAveragePool", 1, 1, &Builder::AddGlobalAveragePool},
      {"ReduceMean", 1, 2, &Builder::AddReduceMean},
      {"LayerNormalization", 2, 3, &Builder::AddPixelNorm},
      {"RMSNormalization", 2, 2, &Builder::AddPixelNorm},
      {"InstanceNormalization", 3, 3, &Builder::AddInstanceNormalization},
      {"GroupNormalization", 3, 3, &Builder::AddGroupNormalization},
      {"BatchNormalization", 5, 5, &Builder::AddBatchNormalization},
      {kNormalize, 1, 1, &Builder::AddNormalize},
      {kWindowAttention, 2, 2, &Builder::AddWindowAttention},
      {"Resize", 1, 4, &Builder::AddResize},
      {"Upsample", 1, 2, &Builder::AddUpsample},
      {"Pad", 1, 4, &Builder::AddPad},
      {"Slice", 1, 5, &Builder::AddSlice},
      {"Split", 1, 2, &Builder::AddSplit, kMaxSplits},
      {"Concat", 1, kMaxConcatInputs, &Builder::AddConcat},
      {"DepthToSpace", 1, 1, &Builder::AddDepthToSpace},
      {"SpaceToDepth", 1, 1, &Builder::AddSpaceToDepth},
      {"Reshape", 2, 2, &Builder::AddReshape},
      {"Flatten", 1, 1, &Builder::AddFlatten},
      {"Transpose", 1, 1, &Builder::AddTranspose},
      {"Squeeze", 1, 2, &Builder::AddSqueeze},
      {"Unsqueeze", 1, 2, &Builder::AddUnsqueeze},
      {"Expand", 2, 2, &Builder::AddExpand},
      {"Tile", 2, 2, &Builder::AddTile},
      {"Gather", 2, 2, &Builder::AddGather},
      {"ScatterND", 3, 3, &Builder::AddScatterNd},
      {"Shape", 1, 1, &Builder::AddShape},
      {"Cast", 1, 1, &Builder::AddCast},
      {"Constant", 0, 0, &Builder::AddConstant},
      {"Identity", 1, 1, &Builder::AddIdentity},
  };
  return kOperators;
}

absl::Status Builder::Unsupported(const NodeProto& proto) {
  const bool ours = proto.domain().empty() || proto.domain() == "ai.onnx";
  const auto* foreign = std::find_if(std::begin(kForeign), std::end(kForeign),
                                     [&](const Foreign& f) { return proto.op_type() == f.name; });
  if (ours && foreign != std::end(kForeign)) {
    return absl::UnimplementedError(
        absl::StrCat("is ", foreign->meaning, ", which is not supported"));
  }
  constexpr size_t kShown = 24;
  std::vector<std::string> known;
  for (const Operator& o : Operators().first(kShown)) known.emplace_back(o.name);
  const std::string of = proto.domain().empty() ? "" : " of domain " + Quote(proto.domain());
  return absl::UnimplementedError(
      absl::StrCat("the operator", of, " is not supported; supported are ",
                   absl::StrJoin(known, ", "), " and ", Operators().size() - kShown, " more"));
}

absl::Status Builder::AddInput() {
  for (const TensorProto& tensor : graph_.initializer()) {
    values_[tensor.name()] = {.form = Form::kConstant, .constant = &tensor};
  }
  for (const NodeProto& node : graph_.node()) {
    if (node.op_type() == "Shape") continue;  // sees no pixel
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
    const Size exported = exported_.value_or(Size{0, 0});
    heights_ = ProbesOf(input, 2, exported.height, kProbeHeights);
    widths_ = ProbesOf(input, 3, exported.width, kProbeWidths);
    free_size_ = heights_ == kProbeHeights && widths_ == kProbeWidths;
    sides_.push_back({heights_, widths_});
    Value& image = values_[input.name()];
    image = PlanesOf(0);
    image.shared = readers_[input.name()] > 1;
  }
  if (network_.layers.empty()) return absl::InvalidArgumentError("has no input");
  return absl::OkStatus();
}

absl::Status Builder::Add(const NodeProto& proto) {
  const auto op = std::find_if(Operators().begin(), Operators().end(),
                               [&](const Operator& o) { return proto.op_type() == o.name; });
  const bool known = op != Operators().end() || IsOfNumbers(proto.op_type());
  const bool ours = proto.domain().empty() || proto.domain() == "ai.onnx" ||
                    proto.op_type() == kNormalize || proto.op_type() == kWindowAttention;
  if (!known || !ours) return Unsupported(proto);
  Node node(proto);
  bool numbers = proto.input_size() > 0;
  for (const std::string& name : proto.input()) {
    const auto value = values_.find(name);
    if (!name.empty() && value == values_.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("reads ", Quote(name), ", which no earlier node gives"));
    }
    node.inputs.push_back(name.empty() ? nullptr : &value->second);
    numbers = numbers && (name.empty() || value->second.form != Form::kComputed);
  }
  const size_t count = proto.input_size(), outputs = proto.output_size();
  if (op != Operators().end() && (count < op->min_inputs || count > op->max_inputs || outputs < 1 ||
                                  outputs > op->max_outputs)) {
    const std::string most = op->max_outputs == 1 ? "1" : absl::StrCat("1..", op->max_outputs);
    return absl::InvalidArgumentError(absl::StrCat("has ", count, " inputs and ", outputs,
                                                   " outputs, must have ", op->min_inputs, "..",
                                                   op->max_inputs, " and ", most));
  }
  // Cast looks itself whether there is anything to compute: weights may keep their type of float.
  if (numbers && IsOfNumbers(proto.op_type()) && proto.op_type() != "Cast") {
    RETURN_IF_ERROR(AddNumbers(node));
  } else if (op == Operators().end()) {
    return absl::UnimplementedError("is only supported for the image's size and for constants");
  } else {
    RETURN_IF_ERROR((this->*op->add)(node));
  }
  return node.attributes.CheckAllRead();
}

absl::StatusOr<Network> Builder::Finish() {
  if (graph_.output_size() != 1) {
    return absl::UnimplementedError(
        absl::StrCat("has ", graph_.output_size(), " outputs, only one is supported"));
  }
  const std::string& name = graph_.output(0).name();
  const auto output = values_.find(name);
  if (output == values_.end() || output->second.form != Form::kComputed) {
    return absl::InvalidArgumentError(
        absl::StrCat("output ", Quote(name), " is not what the last node that computes gives"));
  }
  Value& result = output->second;
  absl::Status status = FinishCut(name, result);
  if (status.ok() && !ArePlanes(result) && !HasCut(result)) status = Rearrange(name, result);
  if (!status.ok()) {
    return absl::Status(status.code(), absl::StrCat("output ", Quote(name), " ", status.message()));
  }
  RemoveUnread(result.layer);
  RETURN_IF_ERROR(InferBorder(network_));
  RETURN_IF_ERROR(aligned_ ? CheckAlignment(result) : PadToWindows());
  return std::move(network_);
}

// The padding before the layers must be their need, and all of it must be cut off behind them.
absl::Status Builder::CheckAlignment(const Value& result) {
  PerProbe height = heights_, width = widths_;
  for (int64_t& side : height) side *= network_.scale;
  for (int64_t& side : width) side *= network_.scale;
  const bool cut = SideOf(result.view[2]) == height && SideOf(result.view[3]) == width;
  if (!alignment_) {
    if (cut && network_.align_px == 1) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("pads planes to multiples of a number",
                     cut ? ", but the layers need others" : ", and does not cut that off again"));
  }
  // The layers may need less than is written; a fixed size tells less than they need.
  const int needed_px = network_.align_px;
  const bool less = 2 * alignment_->pad_px % needed_px == 0 &&
                    AlignsTo(alignment_->image, alignment_->added, needed_px);
  if (!less) network_.align_px = alignment_->align_px;
  const bool fits = alignment_->pad_px == network_.pad_px && network_.ValidateSizes().ok();
  if (cut && fits) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("pads ", alignment_->pad_px, " pixels, to multiples of ", alignment_->align_px,
                   cut ? "" : ", and does not cut that off again", "; the layers need ",
                   network_.pad_px, " and ", needed_px));
}

void Builder::RemoveUnread(int result) {
  std::vector<int> place(network_.layers.size(), -1);
  place[0] = place[result] = 0;
  for (size_t i = network_.layers.size(); i-- > 0;) {
    if (place[i] < 0) continue;
    for (const int input : network_.layers[i].inputs) place[input] = 0;
  }
  std::vector<Layer> kept;
  for (size_t i = 0; i < network_.layers.size(); ++i) {
    if (place[i] < 0) continue;
    Layer& layer = kept.emplace_back(std::move(network_.layers[i]));
    for (int& input : layer.inputs) input = place[input];
    place[i] = static_cast<int>(kept.size()) - 1;
  }
  network_.layers = std::move(kept);
}

Layer Builder::NewLayer(const std::string& name, Op op,
                        std::initializer_list<const Value*> inputs) const {
  Layer layer;
  layer.op = op;
  layer.name = name;
  for (const Value* input : inputs) layer.inputs.push_back(input->layer);
  layer.in_channels = network_.layers[layer.inputs[0]].out_channels;
  layer.out_channels = layer.in_channels;
  return layer;
}

Layer Builder::NewLayer(const Node& node, Op op, std::initializer_list<const Value*> inputs) const {
  return NewLayer(node.proto.name().empty() ? node.proto.output(0) : node.proto.name(), op, inputs);
}

absl::StatusOr<int> Builder::AppendUnnamed(Layer layer) {
  per_image_.push_back(layer.op == Op::kGlobalAveragePool || per_image_[layer.inputs[0]]);
  const Sides& in = sides_[layer.inputs[0]];
  Sides out;
  for (size_t i = 0; i < kProbes; ++i) {
    const Size size =
        OutputSize(layer, {static_cast<int>(in.width[i]), static_cast<int>(in.height[i])});
    out.width[i] = size.width;
    out.height[i] = size.height;
  }
  sides_.push_back(out);
  network_.layers.push_back(std::move(layer));
  RETURN_IF_ERROR(network_.CheckCounts());
  return static_cast<int>(network_.layers.size()) - 1;
}

absl::Status Builder::Append(const Node& node, Layer layer) {
  ASSIGN_OR_RETURN(const int index, AppendUnnamed(std::move(layer)));
  return SetOutput(node, PlanesOf(index));
}

absl::Status Builder::AppendLike(const Node& node, Layer layer, const Value& like) {
  Value result = like;
  ASSIGN_OR_RETURN(result.layer, AppendUnnamed(std::move(layer)));
  result.shared = false;
  return SetOutput(node, std::move(result));
}

absl::Status Builder::AppendActivation(const Node& node, const Value& value, Layer activation) {
  if (value.shared || !FuseActivation(activation, network_.layers[value.layer])) {
    return AppendLike(node, std::move(activation), value);
  }
  return PassThrough(node, value);
}

absl::Status Builder::AppendAffine(const Node& node, const Value& value, Layer affine) {
  if (value.shared || !FuseAffine(affine, network_.layers[value.layer])) {
    return AppendLike(node, std::move(affine), value);
  }
  return PassThrough(node, value);
}

absl::Status Builder::PassThrough(const Node& node, Value value) {
  return SetOutput(node, std::move(value));
}

absl::Status Builder::SetOutput(const Node& node, Value value, int i) {
  const std::string& name = node.proto.output(i);
  value.shared = value.shared || readers_[name] > 1;
  if (!name.empty() && values_.emplace(name, std::move(value)).second) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("gives ", Quote(name), ", which is empty or given already"));
}

}  // namespace upscaled::onnx
