#include "engine/model/fuse.h"

#include <algorithm>
#include <cstdint>

namespace upscaled {
namespace {

bool CanTakeOver(const Layer& producer) {
  // Attention in windows has weights, of its positions, and no bias.
  return !producer.weights.empty() && producer.activation == Activation::kNone &&
         std::ssize(producer.bias) == producer.out_channels;
}

// Calls function(weights, count) for each run of weights of channel `out`: one run, or in a
// transposed convolution one for each input channel.
template <typename Weights, typename Function>
void ForEachRun(const Layer& layer, Weights& weights, int out, Function function) {
  const bool transposed = layer.op == Op::kConvTranspose;
  const int64_t taps = int64_t{1} * layer.kernel_px * layer.kernel_px;
  if (!transposed) {
    const int64_t run = static_cast<int64_t>(weights.size()) / layer.out_channels;
    return function(weights.data() + out * run, run);
  }
  for (int64_t in = 0; in < layer.in_channels; ++in) {
    function(weights.data() + (in * layer.out_channels + out) * taps, taps);
  }
}

}  // namespace

bool FuseActivation(const Layer& activation, Layer& producer) {
  if (!CanTakeOver(producer)) return false;
  producer.activation = activation.activation;
  producer.slope = activation.slope;
  producer.clip_min = activation.clip_min;
  producer.clip_max = activation.clip_max;
  return true;
}

bool FuseAffine(const Layer& affine, Layer& producer) {
  if (!CanTakeOver(producer)) return false;
  for (int out = 0; out < producer.out_channels; ++out) {
    const float factor = affine.weights[out];
    ForEachRun(producer, producer.weights, out, [factor](float* weights, int64_t count) {
      for (int64_t i = 0; i < count; ++i) weights[i] *= factor;
    });
    producer.bias[out] = producer.bias[out] * factor + affine.bias[out];
  }
  return true;
}

bool FusePermutation(std::span<const int> order, Layer& producer) {
  if (producer.op != Op::kConv && producer.op != Op::kConvTranspose) return false;
  const Layer before = producer;
  for (int out = 0; out < producer.out_channels; ++out) {
    std::vector<const float*> runs;
    ForEachRun(before, before.weights, order[out],
               [&runs](const float* weights, int64_t) { runs.push_back(weights); });
    auto run = runs.begin();
    ForEachRun(producer, producer.weights, out,
               [&run](float* weights, int64_t count) { std::copy_n(*run++, count, weights); });
    producer.bias[out] = before.bias[order[out]];
    if (producer.activation == Activation::kPRelu) producer.slope[out] = before.slope[order[out]];
  }
  return true;
}

std::vector<int> DepthFirstOrder(int channels, int factor) {
  const int area = factor * factor;
  std::vector<int> order;
  for (int i = 0; i < channels; ++i) order.push_back(i % area * (channels / area) + i / area);
  return order;
}

Layer MakePermutation(std::span<const int> order) {
  const int channels = static_cast<int>(order.size());
  Layer layer{.op = Op::kConv, .out_channels = channels, .in_channels = channels};
  layer.weights.assign(order.size() * order.size(), 0.0f);
  layer.bias.assign(order.size(), 0.0f);
  for (int out = 0; out < channels; ++out) {
    layer.weights[static_cast<size_t>(out) * channels + order[out]] = 1.0f;
  }
  return layer;
}

}  // namespace upscaled
