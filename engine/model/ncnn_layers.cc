// The list of supported ncnn layer types; those with weights, and activations. ncnn_shapes.cc and
// ncnn_arithmetic.cc have the others.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/model/limits.h"
#include "engine/model/ncnn_builder.h"

namespace upscaled {
namespace {

// Parameters 9 and 10 of the layers with weights.
absl::Status ReadFusedActivation(NcnnParams& params, Layer& layer) {
  ASSIGN_OR_RETURN(const int type, params.Int(9, 0));
  ASSIGN_OR_RETURN(const std::vector<float> values, params.Array(10));
  const size_t needed = type == 2 ? 1 : type == 3 ? 2 : 0;
  if (values.size() < needed) {
    return absl::InvalidArgumentError(absl::StrCat("activation type ", type, " needs ", needed,
                                                   " parameters, has ", values.size()));
  }
  switch (type) {
    case 0:
      return absl::OkStatus();
    case 1:
      layer.activation = Activation::kRelu;
      return absl::OkStatus();
    case 2:
      layer.activation = Activation::kLeakyRelu;
      layer.slope = {values[0]};
      return absl::OkStatus();
    case 3:
      layer.activation = Activation::kClip;
      layer.clip_min = values[0];
      layer.clip_max = values[1];
      return absl::OkStatus();
    case 4:
      layer.activation = Activation::kSigmoid;
      return absl::OkStatus();
    case 5:
      layer.activation = Activation::kMish;
      return absl::OkStatus();
    default:
      return absl::UnimplementedError(
          absl::StrCat("activation type ", type, " is not supported, only 0..5"));
  }
}

// Our layout of a transposed convolution is [in][out][kernel]; ncnn's is [out][in][kernel].
std::vector<float> SwapFirstTwoAxes(const std::vector<float>& values, int first, int second,
                                    int rest) {
  std::vector<float> swapped(values.size());
  for (int i = 0; i < first; ++i) {
    for (int j = 0; j < second; ++j) {
      const auto from = values.begin() + (int64_t{i} * second + j) * rest;
      std::copy_n(from, rest, swapped.begin() + (int64_t{j} * first + i) * rest);
    }
  }
  return swapped;
}

}  // namespace

std::span<const NcnnBuilder::Type> NcnnBuilder::Types() {
  static constexpr Type kTypes[] = {
      {"Input", 0, &NcnnBuilder::AddInput},
      {"Convolution", 1, &NcnnBuilder::AddConvolution},
      {"ConvolutionDepthWise", 1, &NcnnBuilder::AddGroupedConvolution},
      {"Deconvolution", 1, &NcnnBuilder::AddDeconvolution},
      {"InnerProduct", 1, &NcnnBuilder::AddInnerProduct},
      {"ReLU", 1, &NcnnBuilder::AddRelu},
      {"PReLU", 1, &NcnnBuilder::AddPRelu},
      {"Sigmoid", 1, &NcnnBuilder::AddCurve},
      {"Swish", 1, &NcnnBuilder::AddCurve},
      {"Mish", 1, &NcnnBuilder::AddCurve},
      {"GELU", 1, &NcnnBuilder::AddCurve},
      {"Softplus", 1, &NcnnBuilder::AddCurve},
      {"Clip", 1, &NcnnBuilder::AddClip},
      {"PixelShuffle", 1, &NcnnBuilder::AddPixelShuffle},
      {"Interp", 1, &NcnnBuilder::AddInterp},
      {"Split", 1, &NcnnBuilder::AddSplit},
      {"Concat", 0, &NcnnBuilder::AddConcat},
      {"BinaryOp", 0, &NcnnBuilder::AddBinaryOp},
      {"Eltwise", 0, &NcnnBuilder::AddEltwise},
      {"Scale", 0, &NcnnBuilder::AddScale},
      {"Crop", 0, &NcnnBuilder::AddCrop},
      {"Padding", 1, &NcnnBuilder::AddPadding},
      {"Pooling", 1, &NcnnBuilder::AddPooling},
      {"Reshape", 1, &NcnnBuilder::AddReshape},
  };
  return kTypes;
}

absl::Status NcnnBuilder::AddInput(NcnnLayer& source) {
  // 0 and 1 are the width and height it was exported at.
  RETURN_IF_ERROR(source.params.Int(0, 0).status());
  RETURN_IF_ERROR(source.params.Int(1, 0).status());
  RETURN_IF_ERROR(source.params.Expect(2, "channel count", 3));
  if (!source.inputs.empty()) return absl::InvalidArgumentError("an Input has no inputs");
  Layer layer;
  layer.op = Op::kInput;
  layer.name = source.name;
  layer.out_channels = 3;
  return Append(source, std::move(layer));
}

absl::Status NcnnBuilder::AppendWithWeights(NcnnLayer& source, Layer layer, int bias_param,
                                            int count_param, int kernel_area) {
  ASSIGN_OR_RETURN(layer.out_channels, source.params.Int(0, 0));
  if (layer.out_channels < 1 || layer.out_channels > kMaxChannels) {
    return absl::InvalidArgumentError(
        absl::StrCat("has ", layer.out_channels, " channels, outside 1..", kMaxChannels));
  }
  const int group_channels = layer.in_channels / layer.groups;
  const int64_t count = int64_t{layer.out_channels} * group_channels * kernel_area;
  ASSIGN_OR_RETURN(const int given, source.params.Int(count_param, 0));
  if (given != count) {
    return absl::InvalidArgumentError(absl::StrCat("has ", given, " weights, ", layer.out_channels,
                                                   " x ", group_channels, " channels x ",
                                                   kernel_area, " need ", count));
  }
  ASSIGN_OR_RETURN(const int has_bias, source.params.Int(bias_param, 0));
  RETURN_IF_ERROR(source.params.Expect(8, "int8 scale term", 0));
  RETURN_IF_ERROR(ReadFusedActivation(source.params, layer));
  ASSIGN_OR_RETURN(layer.weights, weights_.ReadTagged(count));
  if (layer.op == Op::kConvTranspose) {
    layer.weights =
        SwapFirstTwoAxes(layer.weights, layer.out_channels, layer.in_channels, kernel_area);
  }
  layer.bias.assign(layer.out_channels, 0.0f);
  if (has_bias != 0) {
    ASSIGN_OR_RETURN(layer.bias, weights_.ReadPlain(layer.out_channels));
  }
  return Append(source, std::move(layer));
}

absl::Status NcnnBuilder::AddConv(NcnnLayer& source, Op op) {
  NcnnParams& params = source.params;
  Layer layer = NewLayer(source, op);
  ASSIGN_OR_RETURN(layer.kernel_px, params.Int(1, 0));
  ASSIGN_OR_RETURN(layer.stride_px, params.Int(3, 1));
  ASSIGN_OR_RETURN(layer.padding_px, params.Int(4, 0));
  if (layer.kernel_px < 1 || layer.kernel_px > kMaxKernelPx) {
    return absl::InvalidArgumentError(
        absl::StrCat("kernel is ", layer.kernel_px, " pixels wide, outside 1..", kMaxKernelPx));
  }
  RETURN_IF_ERROR(params.Expect(11, "kernel height", layer.kernel_px));
  RETURN_IF_ERROR(params.Expect(2, "dilation", 1));
  RETURN_IF_ERROR(params.Expect(12, "vertical dilation", 1));
  RETURN_IF_ERROR(params.Expect(13, "vertical stride", layer.stride_px));
  RETURN_IF_ERROR(params.Expect(14, "top padding", layer.padding_px));
  RETURN_IF_ERROR(params.Expect(15, "right padding", layer.padding_px));
  RETURN_IF_ERROR(params.Expect(16, "bottom padding", layer.padding_px));
  for (const int extra : {18, 19, 20, 21}) {  // padding value, dynamic weights, output size
    RETURN_IF_ERROR(params.Expect(extra, "value", 0));
  }
  if (op == Op::kGroupedConv) {
    ASSIGN_OR_RETURN(layer.groups, params.Int(7, 1));
    if (layer.groups < 1 || layer.in_channels % layer.groups != 0) {
      return absl::InvalidArgumentError(absl::StrCat("cannot share ", layer.in_channels,
                                                     " channels among ", layer.groups, " groups"));
    }
  }
  const int kernel_area = layer.kernel_px * layer.kernel_px;
  return AppendWithWeights(source, std::move(layer), 5, 6, kernel_area);
}

absl::Status NcnnBuilder::AddInnerProduct(NcnnLayer& source) {
  return AppendWithWeights(source, NewLayer(source, Op::kFullyConnected), 1, 2, 1);
}

absl::Status NcnnBuilder::AddRelu(NcnnLayer& source) {
  Layer layer = NewLayer(source, Op::kActivation);
  ASSIGN_OR_RETURN(const float slope, source.params.Float(0, 0));
  layer.activation = slope == 0 ? Activation::kRelu : Activation::kLeakyRelu;
  if (slope != 0) layer.slope = {slope};
  return AppendActivation(source, layer);
}

absl::Status NcnnBuilder::AddPRelu(NcnnLayer& source) {
  Layer layer = NewLayer(source, Op::kActivation);
  ASSIGN_OR_RETURN(const int count, source.params.Int(0, 0));
  if (count != 1 && count != layer.in_channels) {
    return absl::InvalidArgumentError(
        absl::StrCat("has ", count, " slopes, must have 1 or ", layer.in_channels));
  }
  ASSIGN_OR_RETURN(layer.slope, weights_.ReadPlain(count));
  layer.activation = count == 1 ? Activation::kLeakyRelu : Activation::kPRelu;
  return AppendActivation(source, layer);
}

absl::Status NcnnBuilder::AddCurve(NcnnLayer& source) {
  Layer layer = NewLayer(source, Op::kActivation);
  if (source.type == "GELU") {
    ASSIGN_OR_RETURN(const int fast, source.params.Int(0, 0));
    layer.activation = fast != 0 ? Activation::kGeluTanh : Activation::kGelu;
  } else {
    layer.activation = source.type == "Swish"      ? Activation::kSilu
                       : source.type == "Mish"     ? Activation::kMish
                       : source.type == "Softplus" ? Activation::kSoftplus
                                                   : Activation::kSigmoid;
  }
  return AppendActivation(source, layer);
}

absl::Status NcnnBuilder::AddClip(NcnnLayer& source) {
  Layer layer = NewLayer(source, Op::kActivation);
  layer.activation = Activation::kClip;
  ASSIGN_OR_RETURN(layer.clip_min, source.params.Float(0, std::numeric_limits<float>::lowest()));
  ASSIGN_OR_RETURN(layer.clip_max, source.params.Float(1, std::numeric_limits<float>::max()));
  return AppendActivation(source, layer);
}

}  // namespace upscaled
