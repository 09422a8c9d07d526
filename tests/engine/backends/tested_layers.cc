#include "tests/engine/backends/tested_layers.h"

#include <array>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

#include "absl/strings/str_format.h"
#include "engine/backends/reference/layers.h"
#include "engine/base/int_math.h"
#include "engine/model/op.h"
#include "tests/support/test_image.h"

namespace upscaled::test {
namespace {

constexpr Activation kActivations[] = {
    Activation::kNone,    Activation::kRelu,     Activation::kLeakyRelu, Activation::kPRelu,
    Activation::kSigmoid, Activation::kClip,     Activation::kSilu,      Activation::kMish,
    Activation::kGelu,    Activation::kGeluTanh, Activation::kSoftplus};

void SetRandomActivation(Layer& layer, std::mt19937& random) {
  std::uniform_real_distribution<float> slope(-0.5f, 1.5f);
  layer.activation = kActivations[RandomInt(random, 0, std::size(kActivations) - 1)];
  const int slopes = layer.activation == Activation::kLeakyRelu ? 1
                     : layer.activation == Activation::kPRelu   ? layer.out_channels
                                                                : 0;
  layer.slope.resize(slopes);
  for (float& s : layer.slope) s = slope(random);
  layer.clip_min = -0.25f;
  layer.clip_max = 0.5f;
}

Layer MakePad(int channels, int padding_px, PadMode mode) {
  Layer layer = MakePlain(Op::kPad, channels, channels, 1, 0, {0});
  layer.padding_px = padding_px;
  layer.pad_mode = mode;
  layer.pad_value = 0.5f;
  return layer;
}

Layer MakeSlice(int in, int first, int out) {
  Layer layer = MakePlain(Op::kSlice, in, out, 1, 0, {0});
  layer.first_channel = first;
  return layer;
}

// With a factor and an offset for each channel.
Layer MakeScaling(Op op, int channels, std::mt19937& random) {
  Layer layer = MakePlain(op, channels, channels, 1, 0, {0});
  std::normal_distribution<float> normal;
  for (int c = 0; c < channels; ++c) {
    layer.weights.push_back(normal(random));
    layer.bias.push_back(normal(random));
  }
  return layer;
}

struct TestedWindows {
  int heads, depth;
  WindowAxis x, y;
  int overlap_px = 0;
  int factor = 1;
};

Layer MakeWindowAttention(const TestedWindows& windows, std::mt19937& random) {
  const int channels = windows.heads * windows.depth;
  Layer layer = MakePlain(Op::kWindowAttention, 3 * channels, channels, windows.factor, 0, {0});
  layer.groups = windows.heads;
  layer.window_x = windows.x;
  layer.window_y = windows.y;
  layer.overlap_px = windows.overlap_px;
  std::normal_distribution<float> normal;
  layer.weights.resize(OperationOf(layer.op).weights(layer));
  for (float& bias : layer.weights) bias = normal(random);
  return layer;
}

Layer MakeChannelLayer(Op op, int heads, int depth, std::vector<int> inputs, std::mt19937& random) {
  Layer layer = MakePlain(op, 3 * heads * depth, 0, 1, 0, std::move(inputs));
  layer.groups = heads;
  layer.out_channels = OperationOf(op).channels(layer, layer.in_channels);
  layer.weights.resize(OperationOf(op).weights(layer));
  std::normal_distribution<float> normal;
  for (float& factor : layer.weights) factor = 3 * normal(random);
  return layer;
}

}  // namespace

Layer MakeConv(Op op, int in, int out, int kernel, int stride, int padding, std::mt19937& random) {
  Layer layer;
  layer.op = op;
  layer.name = "tested";
  layer.inputs = {0};
  layer.in_channels = in;
  layer.out_channels = out;
  layer.kernel_px = kernel;
  layer.stride_px = stride;
  layer.padding_px = padding;
  std::normal_distribution<float> normal;
  const float scale = 1 / std::sqrt(static_cast<float>(in) * kernel * kernel);
  layer.weights.resize(static_cast<size_t>(in) * out * kernel * kernel);
  for (float& w : layer.weights) w = normal(random) * scale;
  layer.bias.resize(out);
  for (float& b : layer.bias) b = normal(random);
  return layer;
}

Layer MakeGroupedConv(int groups, int in, int out, int kernel, int stride, int padding,
                      std::mt19937& random) {
  Layer layer = MakeConv(Op::kConv, in / groups, out, kernel, stride, padding, random);
  layer.op = Op::kGroupedConv;
  layer.in_channels = in;
  layer.groups = groups;
  return layer;
}

Layer MakePlain(Op op, int in, int out, int factor, int crop_px, std::vector<int> inputs) {
  Layer layer;
  layer.op = op;
  layer.name = "tested";
  layer.inputs = std::move(inputs);
  layer.in_channels = in;
  layer.out_channels = out;
  layer.factor = factor;
  layer.crop_px = crop_px;
  return layer;
}

std::vector<Layer> TestedLayers(std::mt19937& random) {
  std::vector<Layer> layers;
  const int odd = RandomInt(random, 5, 70);
  for (const auto& [in, out] : {std::pair{16, 16},
                                {32, 64},
                                {5, 12},
                                {48, 33},
                                {64, 3},
                                {3, 12},
                                {3, 32},
                                {3, 17},
                                {3, 48},
                                {3, 3},
                                {17, 1},
                                {4, 20},
                                {odd, 96},
                                {20, odd}}) {
    for (const int padding : {0, 1}) {
      layers.push_back(MakeConv(Op::kConv, in, out, 3, 1, padding, random));
    }
    layers.push_back(MakeConv(Op::kConv, in, out, 1, 1, 0, random));
    layers.push_back(MakeConv(Op::kConv, in, out, 2, 2, 0, random));
    layers.push_back(MakeConv(Op::kConv, in, out, 5, 3, 2, random));
    layers.push_back(MakeConv(Op::kConvTranspose, in, out, 4, 2, 3, random));
    layers.push_back(MakeConv(Op::kConvTranspose, in, out, 2, 2, 0, random));
    layers.push_back(MakeConv(Op::kConvTranspose, in, out, 3, 2, 1, random));
  }
  for (const int kernel : {5, 7}) {
    layers.push_back(MakeConv(Op::kConv, 3, odd, kernel, 1, kernel / 2, random));
    layers.push_back(MakeConv(Op::kConv, odd, 20, kernel, 1, 1, random));
  }
  for (const int kernel : {13, 17}) {
    layers.push_back(MakeConv(Op::kConv, 7, 18, kernel, 1, kernel / 2, random));
  }
  for (const int kernel : {1, 3, 5, 7, 13}) {
    for (const int stride : {1, 2}) {
      layers.push_back(
          MakeGroupedConv(odd, odd, odd, kernel, stride, RandomInt(random, 0, kernel / 2), random));
    }
  }
  for (const auto& [groups, in, out] : {std::array{3, 3, 3}, {4, 4, 8}, {2, 34, 6}, {8, 16, 40}}) {
    layers.push_back(MakeGroupedConv(groups, in, out, 3, 1, 1, random));
  }
  layers.push_back(MakePlain(Op::kPixelShuffle, 48, 3, 4, 0, {0}));
  layers.push_back(MakePlain(Op::kPixelShuffle, 32, 2, 4, 0, {0}));
  layers.push_back(MakePlain(Op::kResizeNearest, 4, 4, 3, 0, {0}));
  for (const int channels : {3, 20, 32}) {
    layers.push_back(MakePlain(Op::kResizeNearest, channels, channels, 2, 0, {0}));
    layers.push_back(MakePlain(Op::kPixelShuffle, channels * 4, channels, 2, 0, {0}));
    layers.push_back(MakePlain(Op::kPixelShuffle, channels * 9, channels, 3, 0, {0}));
    layers.push_back(MakePlain(Op::kResizeNearest, channels, channels, 3, 0, {0}));
    layers.push_back(MakePlain(Op::kResizeBilinear, channels, channels, 2, 0, {0}));
    layers.push_back(MakePlain(Op::kCrop, channels, channels, 1, 2, {0}));
    layers.push_back(MakePlain(Op::kActivation, channels, channels, 1, 0, {0}));
    for (const PadMode mode :
         {PadMode::kConstant, PadMode::kReplicate, PadMode::kReflect, PadMode::kWrap}) {
      layers.push_back(MakePad(channels, RandomInt(random, 0, 7), mode));
    }
    layers.push_back(MakeScaling(Op::kAffine, channels, random));
    for (const bool centred : {true, false}) {
      layers.push_back(MakeScaling(Op::kPixelNorm, channels, random));
      layers.back().centred = centred;
      layers.back().epsilon = 0.1f;
      layers.push_back(layers.back());
      layers.back().groups = channels % 4 == 0 ? 4 : channels;
    }
    for (const int groups : {1, channels % 4 == 0 ? 4 : channels}) {
      layers.push_back(MakeScaling(Op::kGroupNorm, channels, random));
      layers.back().inputs = {0, 1};
      layers.back().groups = groups;
      layers.back().epsilon = 0.1f;
    }
    layers.push_back(MakePlain(Op::kAdd, channels, channels, 1, 0, {0, 1}));
    layers.push_back(MakePlain(Op::kMul, channels, channels, 1, 0, {0, 1}));
    layers.push_back(MakePlain(Op::kConcat, channels, channels * 3, 1, 0, {0, 1, 2}));
  }
  for (const TestedWindows& windows : {TestedWindows{6, 16, {6, 3}, {6, 3}},
                                       {2, 32, {8, 0}, {8, 0}},
                                       {3, 30, {8, 4}, {8, 4}},
                                       {1, 1, {1, 0}, {1, 0}},
                                       {1, 2, {3, 1}, {3, 1}},
                                       {2, 5, {7, 6}, {7, 6}},
                                       {4, 1, {5, 2}, {5, 2}},
                                       {1, 70, {2, 1}, {2, 1}},
                                       {3, 30, {8, 0}, {16, 8}, 0, 16},
                                       {2, 17, {5, 4}, {2, 1}, 0, 7},
                                       {6, 10, {8, 3}, {8, 5}},  // heads across planes
                                       {2, 7, {9, 4}, {9, 2}},  // 81 queries: 4 and 2 vectors of 16
                                       {1, 11, {10, 0}, {10, 3}},  // 4 and 3
                                       {2, 24, {4, 0}, {4, 0}, 1},
                                       {1, 9, {3, 2}, {4, 1}, 5, 3}}) {
    layers.push_back(MakeWindowAttention(windows, random));
  }
  for (const auto& [heads, depth] :
       {std::pair{6, 30}, {3, 16}, {1, 5}, {8, 2}, {2, 33}, {1, 48}, {7, 3}}) {
    layers.push_back(MakeChannelLayer(Op::kChannelProducts, heads, depth, {0}, random));
    layers.push_back(MakeChannelLayer(Op::kChannelAttention, heads, depth, {0, 1}, random));
    for (const auto& [factor, width, height] :
         {std::array{1, 4, 8}, {1, 5, 1}, {2, 1, 1}, {3, 1, 1}}) {
      layers.push_back(MakeChannelLayer(Op::kPartAttention, heads, depth, {0}, random));
      layers.back().factor = factor;
      layers.back().window_x.window_px = width;
      layers.back().window_y.window_px = height;
    }
  }
  for (const int channels : {3, 20, 32}) {
    for (const Op op : {Op::kGridToWindows, Op::kWindowsToGrid}) {
      layers.push_back(MakePlain(op, channels, channels, RandomInt(random, 2, 3), 0, {0}));
    }
    for (const auto& [kernel, stride] : {std::pair{7, 3}, {2, 2}, {3, 1}}) {
      layers.push_back(MakePlain(Op::kMaxPool, channels, channels, 1, 0, {0}));
      layers.back().kernel_px = kernel;
      layers.back().stride_px = stride;
    }
    layers.push_back(MakePlain(Op::kAddResized, channels, channels, 1, 0, {0, 1}));
  }
  for (const auto& [groups, channels, factor] :
       {std::array{4, 64, 2}, {1, 32, 4}, {3, 15, 3}, {2, 4, 2}, {1, 3, 1}, {5, 40, 2}}) {
    layers.push_back(MakePlain(Op::kSample, channels, channels, factor, 0, {0, 1}));
    layers.back().groups = groups;
  }
  for (const auto& [in, first, out] : {std::array{64, 0, 16},
                                       {64, 16, 48},
                                       {48, 32, 5},
                                       {20, 3, 17},
                                       {20, 17, 3},
                                       {5, 4, 1},
                                       {4, 1, 3}}) {
    layers.push_back(MakeSlice(in, first, out));
  }
  for (Layer& layer : layers) SetRandomActivation(layer, random);
  // Some kernels take few shapes and few activations: one layer for each of them, in addition to
  // the drawn ones.
  layers.push_back(MakeConv(Op::kConv, 32, 64, 3, 1, 1, random));
  layers.push_back(MakeConv(Op::kConv, 64, 3, 3, 1, 1, random));
  layers.push_back(MakeConv(Op::kConvTranspose, 32, 64, 2, 2, 0, random));
  return layers;
}

int OutputSide(const Layer& layer, int in) {
  switch (layer.op) {
    case Op::kConv:
    case Op::kGroupedConv:
      return FloorDiv(in + 2 * layer.padding_px - layer.kernel_px, layer.stride_px) + 1;
    case Op::kConvTranspose:
      return (in - 1) * layer.stride_px + layer.kernel_px - 2 * layer.padding_px;
    case Op::kCrop:
      return in - 2 * layer.crop_px;
    case Op::kPad:
      return in + 2 * layer.padding_px;
    case Op::kWindowAttention:
    case Op::kPartAttention:
      return in;
    case Op::kGridToWindows:
    case Op::kWindowsToGrid:
      return in % layer.factor == 0 ? in : 0;
    case Op::kMaxPool:
      return in < layer.kernel_px ? 1 : (in - layer.kernel_px) / layer.stride_px + 1;
    default:
      return in * layer.factor;
  }
}

std::string Describe(const Layer& layer) {
  return absl::StrFormat(
      "%s %d-%d groups %d windows %dx%d+%d kernel %d stride %d padding %d factor %d %s",
      std::string(OpName(layer.op)), layer.in_channels, layer.out_channels, layer.groups,
      layer.window_x.window_px, layer.window_y.window_px, layer.overlap_px, layer.kernel_px,
      layer.stride_px, layer.padding_px, layer.factor,
      std::string(ActivationName(layer.activation)));
}

reference::Tensor RandomTensor(int channels, Size size, std::mt19937& random) {
  reference::Tensor tensor({0, 0, size.width, size.height}, channels);
  std::normal_distribution<float> normal;
  for (float& value : tensor.values) value = normal(random);
  return tensor;
}

reference::Tensor RandomInput(const Layer& layer, size_t i, Size in, std::mt19937& random) {
  const int channels = layer.in_channels;
  const int64_t second = i == 0 ? 0 : OperationOf(layer.op).second_channels(layer);
  if (second != 0) {
    reference::Tensor offsets = RandomTensor(static_cast<int>(second), in, random);
    for (float& offset : offsets.values) offset *= 3;
    offsets.values[0] = std::numeric_limits<float>::quiet_NaN();
    offsets.values.back() = std::numeric_limits<float>::infinity();
    return offsets;
  }
  if (i == 1 && OperationOf(layer.op).resizes_second) {
    return RandomTensor(channels, {in.width / 3 + 1, in.height / 2 + 1}, random);
  }
  if (i == 0 || !OperationOf(layer.op).takes_moments) return RandomTensor(channels, in, random);
  const int count = static_cast<int>(OperationOf(layer.op).moments(layer));
  reference::Tensor moments = RandomTensor(count, {1, 1}, random);
  if (layer.op == Op::kGroupNorm) {
    for (int c = 0; c < channels; ++c) {
      moments.values[channels + c] = std::pow(moments.values[c], 2.0f) + 0.5f;
    }
  } else {  // squares last
    for (int c = count - 2 * layer.out_channels; c < count; ++c) {
      moments.values[c] = std::abs(moments.values[c]) + 0.5f;
    }
  }
  return moments;
}

reference::Tensor ComputeReference(const Layer& layer, const std::vector<reference::Tensor>& inputs,
                                   Size out) {
  std::vector<const reference::Tensor*> pointers;
  for (const reference::Tensor& input : inputs) pointers.push_back(&input);
  reference::Tensor result({0, 0, out.width, out.height}, layer.out_channels);
  reference::ComputeLayer(layer, pointers, result);
  return result;
}

}  // namespace upscaled::test
