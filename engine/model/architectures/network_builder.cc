#include "engine/model/architectures/network_builder.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/base/string_view.h"
#include "engine/model/border.h"
#include "engine/model/fuse.h"
#include "engine/model/limits.h"
#include "engine/model/op.h"
#include "engine/model/quote.h"

namespace upscaled {
namespace {

std::string Named(std::string_view name, const char* part) {
  return absl::StrCat(ToAbsl(name), ".", part);
}

// "layers.#.conv" of "layers.12.conv".
std::string WithoutNumbers(std::string_view name) {
  std::string pattern;
  for (const char c : name) {
    if (!absl::ascii_isdigit(c)) {
      pattern += c;
    } else if (pattern.empty() || pattern.back() != '#') {
      pattern += '#';
    }
  }
  return pattern;
}

}  // namespace

void NetworkBuilder::Fail(absl::Status error) {
  if (status_.ok()) status_ = std::move(error);
}

int NetworkBuilder::Append(Layer layer) {
  if (!ok()) return 0;
  if (!layer.inputs.empty()) layer.in_channels = Channels(layer.inputs[0]);
  if (layer.out_channels == 0) layer.out_channels = layer.in_channels;
  if (layer.name.empty()) {
    layer.name = absl::StrCat(ToAbsl(OpName(layer.op)), " ", network_.layers.size());
  }
  network_.layers.push_back(std::move(layer));
  Fail(network_.CheckCounts());
  return static_cast<int>(network_.layers.size()) - 1;
}

int NetworkBuilder::Input() {
  return Append({.op = Op::kInput, .name = "input", .out_channels = 3});
}

std::vector<int64_t> NetworkBuilder::Shape(std::string_view name, size_t axes) {
  const std::vector<int64_t> none(axes, 0);
  if (!ok()) return none;
  const TensorInfo* info = file_.Find(name);
  if (info == nullptr) {
    Fail(absl::InvalidArgumentError(absl::StrCat("lacks the tensor ", Quote(name))));
    return none;
  }
  if (info->shape.size() == axes) return info->shape;
  Fail(absl::InvalidArgumentError(absl::StrCat(
      "tensor ", Quote(name), " of ", DescribeShape(info->shape), " must have ", axes, " axes")));
  return none;
}

std::vector<float> NetworkBuilder::Read(std::string_view name, const std::vector<int64_t>& shape) {
  const std::vector<int64_t> given = Shape(name, shape.size());
  if (!ok()) return {};
  if (given != shape) {
    Fail(absl::InvalidArgumentError(absl::StrCat("tensor ", Quote(name), " of ",
                                                 DescribeShape(given), " must be of ",
                                                 DescribeShape(shape))));
    return {};
  }
  absl::StatusOr<std::vector<float>> values = file_.Read(name);
  Fail(values.status());
  if (!ok()) return {};
  read_.emplace(name);
  return *std::move(values);
}

void NetworkBuilder::CheckNoneHasBias(std::string_view bias) {
  if (kinds_.empty()) {
    for (const auto& [name, info] : file_.tensors()) kinds_.emplace(WithoutNumbers(name), name);
  }
  const auto other = kinds_.find(WithoutNumbers(bias));
  if (other == kinds_.end()) return;
  Fail(absl::InvalidArgumentError(
      absl::StrCat("lacks the tensor ", Quote(bias), ", though it has ", Quote(other->second))));
}

std::vector<float> NetworkBuilder::ReadBias(std::string_view name, int channels) {
  const std::string bias = Named(name, "bias");
  if (!file_.Has(bias)) {
    CheckNoneHasBias(bias);
    return std::vector<float>(channels, 0.0f);
  }
  return Read(bias, {channels});
}

int NetworkBuilder::AppendConv(int input, std::string_view name, const ConvOptions& options,
                               Op op) {
  const std::string weight = Named(name, "weight");
  const std::vector<int64_t> shape = Shape(weight, 4);
  if (!ok()) return 0;
  const bool transposed = op == Op::kConvTranspose;
  const int64_t in = transposed ? shape[0] : shape[1], out = transposed ? shape[1] : shape[0];
  const bool sound = in * options.groups == Channels(input) && out >= 1 && out <= kMaxChannels &&
                     shape[2] >= 1 && shape[2] <= kMaxKernelPx && shape[3] == shape[2];
  if (!sound) {
    Fail(absl::InvalidArgumentError(absl::StrCat(
        "tensor ", Quote(weight), " of ", DescribeShape(shape), " must be a square kernel of 1..",
        kMaxKernelPx, " pixels for ", Channels(input), " channels")));
    return 0;
  }
  const int kernel_px = static_cast<int>(shape[2]);
  Layer layer{.op = op,
              .name = std::string(name),
              .inputs = {input},
              .out_channels = static_cast<int>(out),
              .kernel_px = kernel_px,
              .stride_px = options.stride_px,
              .groups = options.groups,
              .padding_px = options.padding_px == kSame ? kernel_px / 2 : options.padding_px};
  layer.weights = Read(weight, shape);
  layer.bias = ReadBias(name, layer.out_channels);
  layer.activation = options.activation;
  if (options.activation == Activation::kLeakyRelu) layer.slope = {options.slope};
  for (float& value : layer.weights) value *= options.factor;
  for (float& value : layer.bias) value *= options.factor;
  return Append(std::move(layer));
}

int NetworkBuilder::Conv(int input, std::string_view name, const ConvOptions& options) {
  return AppendConv(input, name, options, options.groups == 1 ? Op::kConv : Op::kGroupedConv);
}

int NetworkBuilder::ConvTranspose(int input, std::string_view name, const ConvOptions& options) {
  return AppendConv(input, name, options, Op::kConvTranspose);
}

int NetworkBuilder::AppendOwn(int input, Layer conv, Op op) {
  conv.op = op;
  conv.inputs = {input};
  conv.out_channels = static_cast<int>(conv.bias.size());
  return Append(std::move(conv));
}

int NetworkBuilder::Conv(int input, Layer conv) {
  return AppendOwn(input, std::move(conv), Op::kConv);
}

int NetworkBuilder::GroupedConv(int input, Layer conv) {
  return AppendOwn(input, std::move(conv), Op::kGroupedConv);
}

int NetworkBuilder::ConvTranspose(int input, Layer conv) {
  return AppendOwn(input, std::move(conv), Op::kConvTranspose);
}

Layer NetworkBuilder::ReadLinear(std::string_view name, int channels) {
  Layer layer{.op = Op::kConv, .name = std::string(name)};
  const std::string weight = Named(name, "weight");
  const int64_t out = Shape(weight, 2)[0];
  if (ok() && (out < 1 || out > kMaxChannels)) {
    Fail(absl::InvalidArgumentError(absl::StrCat("tensor ", Quote(weight), " gives ", out,
                                                 " channels, outside 1..", kMaxChannels)));
  }
  if (!ok()) return layer;
  layer.weights = Read(weight, {out, channels});
  layer.bias = ReadBias(name, static_cast<int>(out));
  return layer;
}

int NetworkBuilder::Linear(int input, std::string_view name, Activation activation) {
  if (!ok()) return 0;
  Layer layer = ReadLinear(name, Channels(input));
  layer.activation = activation;
  return Conv(input, std::move(layer));
}

int NetworkBuilder::WindowAttention(int input, Layer attention) {
  if (!ok()) return 0;
  attention.inputs = {input};
  attention.out_channels = Channels(input) / 3;
  return Append(std::move(attention));
}

int NetworkBuilder::ChannelAttention(int input, std::vector<float> temperatures) {
  if (!ok()) return 0;
  const int heads = static_cast<int>(temperatures.size());
  Layer products{.op = Op::kChannelProducts,
                 .inputs = {input},
                 .in_channels = Channels(input),
                 .groups = heads};
  products.out_channels = OperationOf(products.op).channels(products, Channels(input));
  const int means = GlobalAveragePool(Append(std::move(products)));
  Layer attention{.op = Op::kChannelAttention,
                  .inputs = {input, means},
                  .out_channels = Channels(input) / 3,
                  .groups = heads,
                  .weights = std::move(temperatures)};
  return Append(std::move(attention));
}

int NetworkBuilder::FullyConnected(int input, std::string_view name, Activation activation) {
  const std::string weight = Named(name, "weight");
  const TensorInfo* info = file_.Find(weight);
  std::vector<int64_t> shape = Shape(weight, info != nullptr && info->shape.size() == 4 ? 4 : 2);
  if (!ok()) return 0;
  shape[1] = Channels(input);
  if (shape.size() == 4) shape[2] = shape[3] = 1;
  Layer layer{.op = Op::kFullyConnected,
              .name = std::string(name),
              .inputs = {input},
              .out_channels = static_cast<int>(shape[0])};
  layer.weights = Read(weight, shape);
  layer.bias = ReadBias(name, layer.out_channels);
  layer.activation = activation;
  return Append(std::move(layer));
}

int NetworkBuilder::PRelu(int input, std::string_view name) {
  const std::string weight = Named(name, "weight");
  std::vector<int64_t> shape = Shape(weight, 1);
  if (!ok()) return 0;
  const int channels = Channels(input);
  if (shape[0] != 1) shape[0] = channels;
  Layer activation{.op = Op::kActivation, .name = std::string(name), .inputs = {input}};
  activation.activation = Activation::kPRelu;
  activation.slope = Read(weight, shape);
  if (!ok()) return 0;
  if (activation.slope.size() == 1) activation.slope.resize(channels, activation.slope[0]);
  if (FuseActivation(activation, network_.layers[input])) return input;
  return Append(std::move(activation));
}

int NetworkBuilder::Activate(int input, Activation activation, float slope) {
  Layer layer{.op = Op::kActivation, .inputs = {input}, .activation = activation};
  if (activation == Activation::kLeakyRelu) layer.slope = {slope};
  return Append(std::move(layer));
}

int NetworkBuilder::Affine(int input, std::vector<float> factor, std::vector<float> offset) {
  if (!ok()) return 0;
  Layer layer{.op = Op::kAffine, .inputs = {input}};
  factor.resize(Channels(input), factor.back());
  offset.resize(Channels(input), offset.back());
  layer.weights = std::move(factor);
  layer.bias = std::move(offset);
  return Append(std::move(layer));
}

int NetworkBuilder::Join(Op op, std::vector<int> inputs) {
  if (!ok()) return 0;
  Layer layer{.op = op, .inputs = std::move(inputs)};
  if (op == Op::kConcat) {
    for (const int input : layer.inputs) layer.out_channels += Channels(input);
  }
  return Append(std::move(layer));
}

int NetworkBuilder::Slice(int input, int first, int channels) {
  return Append(
      {.op = Op::kSlice, .inputs = {input}, .out_channels = channels, .first_channel = first});
}

int NetworkBuilder::LayerNorm(int input, std::string_view name, float epsilon) {
  if (!ok()) return 0;
  Layer layer{
      .op = Op::kPixelNorm, .name = std::string(name), .inputs = {input}, .epsilon = epsilon};
  layer.weights = Read(Named(name, "weight"), {Channels(input)});
  layer.bias = ReadBias(name, Channels(input));
  return Append(std::move(layer));
}

int NetworkBuilder::GroupNorm(int input, std::string_view name, int groups, float epsilon) {
  const int moments = GlobalAveragePool(Concat({input, Mul(input, input)}));
  if (!ok()) return 0;
  Layer layer{.op = Op::kGroupNorm,
              .name = std::string(name),
              .inputs = {input, moments},
              .groups = groups,
              .epsilon = epsilon};
  layer.weights = Read(Named(name, "weight"), {Channels(input)});
  layer.bias = Read(Named(name, "bias"), {Channels(input)});
  return Append(std::move(layer));
}

int NetworkBuilder::PixelNorm(int input, Layer norm) {
  norm.op = Op::kPixelNorm;
  norm.inputs = {input};
  return Append(std::move(norm));
}

int NetworkBuilder::Sample(int input, int offsets, int groups, int factor) {
  return Append(
      {.op = Op::kSample, .inputs = {input, offsets}, .groups = groups, .factor = factor});
}

int NetworkBuilder::GlobalAveragePool(int input) {
  return Append({.op = Op::kGlobalAveragePool, .inputs = {input}});
}

int NetworkBuilder::MaxPool(int input, int kernel_px, int stride_px) {
  return Append(
      {.op = Op::kMaxPool, .inputs = {input}, .kernel_px = kernel_px, .stride_px = stride_px});
}

int NetworkBuilder::Rearrange(int input, Op op, int factor) {
  return Append({.op = op, .inputs = {input}, .factor = factor});
}

int NetworkBuilder::PixelShuffle(int input, int factor) {
  if (!ok() || factor == 1) return input;
  Layer layer{.op = Op::kPixelShuffle, .inputs = {input}, .factor = factor};
  layer.out_channels = Channels(input) / (factor * factor);
  return Append(std::move(layer));
}

// A convolution of one tap for each pixel of a block.
int NetworkBuilder::PixelUnshuffle(int input, int factor) {
  if (!ok() || factor == 1) return input;
  const size_t block = static_cast<size_t>(factor) * factor;
  const size_t channels = Channels(input) * block;
  Layer conv{.name = "pixel unshuffle", .kernel_px = factor, .stride_px = factor};
  conv.weights.assign(channels * channels, 0.0f);  // [channel][pixel][channel][pixel]
  for (size_t i = 0; i < channels; ++i) conv.weights[i * channels + i] = 1.0f;
  conv.bias.assign(channels, 0.0f);
  return Conv(input, std::move(conv));
}

int NetworkBuilder::Nearest(int input, int factor) {
  if (factor == 1) return input;
  return Append({.op = Op::kResizeNearest, .inputs = {input}, .factor = factor});
}

int NetworkBuilder::Bilinear(int input, int factor) {
  if (factor == 1) return input;
  return Append({.op = Op::kResizeBilinear, .inputs = {input}, .factor = factor});
}

int NetworkBuilder::Pad(int input, int padding_px, PadMode mode, int align_px, float value) {
  return Append({.op = Op::kPad,
                 .inputs = {input},
                 .padding_px = padding_px,
                 .factor = align_px,
                 .pad_mode = mode,
                 .pad_value = value});
}

int NetworkBuilder::Crop(int input, int crop_px) {
  return Append({.op = Op::kCrop, .inputs = {input}, .crop_px = crop_px});
}

void NetworkBuilder::Ignore(std::string_view prefix) {
  for (auto tensor = file_.tensors().lower_bound(prefix);
       tensor != file_.tensors().end() && tensor->first.starts_with(prefix); ++tensor) {
    read_.insert(tensor->first);
  }
}

absl::StatusOr<Network> NetworkBuilder::Finish() {
  RETURN_IF_ERROR(status_);
  for (const auto& [name, info] : file_.tensors()) {
    if (read_.contains(name)) continue;
    return absl::InvalidArgumentError(absl::StrCat("tensor ", Quote(name), " of ",
                                                   DescribeShape(info.shape),
                                                   " has no place in this architecture"));
  }
  RETURN_IF_ERROR(InferBorder(network_));
  return std::move(network_);
}

}  // namespace upscaled
