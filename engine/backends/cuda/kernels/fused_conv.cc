#include "engine/backends/cuda/kernels/fused_conv.h"

#include <cstddef>

#include "engine/backends/cuda/kernels/layer_constants.h"
#include "engine/base/int_math.h"

namespace upscaled::cuda {
namespace {

// A column's place: its pixel of the group, and its channel.
struct Column {
  int y, x;
  int channel;  // -1 for one that fills up
};

Column ColumnAt(const ConvShape& shape, int column) {
  const int pixel = column / shape.PixelColumns(), channel = column % shape.PixelColumns();
  return {pixel / shape.out_stride, pixel % shape.out_stride,
          channel < shape.out_channels ? channel : -1};
}

// The convolution's own channel.
int ConvChannel(const FusedConv& layers, const Column& column) {
  if (layers.shuffle == nullptr) return column.channel;
  const int factor = layers.shuffle->factor;
  return (column.channel * factor + column.y) * factor + column.x;
}

}  // namespace

bool IsFusable(const FusedConv& layers) {
  const Op op = layers.conv->op;
  if (layers.shuffle != nullptr) {
    return op == Op::kConv && (layers.conv->activation == Activation::kNone ||
                               layers.shuffle->activation == Activation::kNone);
  }
  return op == Op::kConv || op == Op::kGroupedConv || op == Op::kConvTranspose ||
         op == Op::kFullyConnected;
}

ConvShape ShapeOf(const FusedConv& layers) {
  const Layer& conv = *layers.conv;
  ConvShape shape;
  shape.in_channels = conv.in_channels;
  shape.out_channels = conv.out_channels;
  switch (conv.op) {
    case Op::kConvTranspose:  // output o gets tap o + padding - i * stride of input i
      shape.taps = CeilDiv(conv.kernel_px, conv.stride_px);
      shape.offset = 1 - shape.taps;
      shape.out_stride = conv.stride_px;
      shape.crop = conv.padding_px;
      break;
    case Op::kFullyConnected:
      break;
    default:
      shape.taps = conv.kernel_px;
      shape.in_stride = conv.stride_px;
      shape.offset = -conv.padding_px;
  }
  if (layers.shuffle != nullptr) {
    shape.out_stride = layers.shuffle->factor;
    shape.out_channels = layers.shuffle->out_channels;
  }
  return shape;
}

ActivationParams ActivationOf(const FusedConv& layers) {
  const bool by_shuffle = layers.shuffle != nullptr && layers.conv->activation == Activation::kNone;
  return ActivationOf(by_shuffle ? *layers.shuffle : *layers.conv);
}

float WeightAt(const FusedConv& layers, const ConvShape& shape, int column, int tap_y, int tap_x,
               int in_channel) {
  const Layer& conv = *layers.conv;
  const Column place = ColumnAt(shape, column);
  if (column >= shape.Columns() || place.channel < 0 || in_channel >= conv.in_channels) return 0;
  const int out = ConvChannel(layers, place);
  const int taps = conv.op == Op::kFullyConnected ? 1 : conv.kernel_px;
  const int group_in = conv.in_channels / conv.groups;
  const int from = in_channel - out / (conv.out_channels / conv.groups) * group_in;
  if (from < 0 || from >= group_in) return 0;  // of another group
  size_t pair = size_t{1} * out * group_in + from;
  if (conv.op == Op::kConvTranspose) {
    pair = size_t{1} * in_channel * conv.out_channels + out;
    tap_y = place.y + (shape.taps - 1 - tap_y) * conv.stride_px;
    tap_x = place.x + (shape.taps - 1 - tap_x) * conv.stride_px;
    if (tap_y >= taps || tap_x >= taps) return 0;
  }
  return conv.weights[(pair * taps + tap_y) * taps + tap_x];
}

std::vector<float> PackColumnConstants(const FusedConv& layers, const ConvShape& shape,
                                       int columns) {
  const Layer& sloped = layers.shuffle != nullptr && layers.conv->activation == Activation::kNone
                            ? *layers.shuffle
                            : *layers.conv;
  std::vector<float> packed(static_cast<size_t>(PlaneCount(columns)) * kPlaneConstants);
  for (int column = 0; column < shape.Columns(); ++column) {
    const Column place = ColumnAt(shape, column);
    if (place.channel < 0) continue;
    const int out = ConvChannel(layers, place);
    float* plane = &packed[static_cast<size_t>(column / kPlaneChannels) * kPlaneConstants];
    const int lane = column % kPlaneChannels;
    plane[lane] = BiasOf(*layers.conv, out);
    plane[kSlopes + lane] = SlopeOf(sloped, &sloped == layers.conv ? out : place.channel);
  }
  return packed;
}

}  // namespace upscaled::cuda
