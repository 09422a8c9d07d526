#include "tests/bench/eight_bits.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "engine/backends/reference/layers.h"
#include "engine/backends/reference/tensor.h"
#include "engine/model/shapes.h"

namespace upscaled::bench {
namespace {

using reference::Tensor;

constexpr float kSteps = 255;      // of what is read, between its ends
constexpr float kMaxWeight = 127;  // of signed ones

// Zero is one of the values.
void RoundInputs(std::vector<float>& values) {
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  const float low = std::min(*least, 0.0f), high = std::max(*most, 0.0f);
  if (low == high) return;
  const float scale = (high - low) / kSteps;
  const float zero = std::round(-low / scale);
  for (float& value : values) {
    value = scale * (std::clamp(std::round(value / scale) + zero, 0.0f, kSteps) - zero);
  }
}

void RoundWeights(Layer& layer) {
  const size_t outputs = layer.out_channels, count = layer.weights.size();
  const bool transposed = layer.op == Op::kConvTranspose;
  const size_t taps = transposed ? size_t{1} * layer.kernel_px * layer.kernel_px : count / outputs;
  const auto output_of = [&](size_t i) { return i / taps % outputs; };
  std::vector<float> largest(outputs);
  for (size_t i = 0; i < count; ++i) {
    largest[output_of(i)] = std::max(largest[output_of(i)], std::abs(layer.weights[i]));
  }
  for (size_t i = 0; i < count; ++i) {
    const float scale = largest[output_of(i)] / kMaxWeight;
    if (scale > 0) layer.weights[i] = scale * std::round(layer.weights[i] / scale);
  }
}

bool Multiplies(Op op) {
  return op == Op::kConv || op == Op::kGroupedConv || op == Op::kConvTranspose ||
         op == Op::kFullyConnected;
}

Tensor PaddedInput(const Network& network, const ImageView& source, Size size) {
  Tensor tensor({0, 0, size.width, size.height}, kRgbChannels);
  for (int c = 0; c < kRgbChannels; ++c) {
    for (int y = 0; y < size.height; ++y) {
      const uint8_t* row = source.row(std::clamp(y - network.pad_px, 0, source.height_px() - 1));
      for (int x = 0; x < size.width; ++x) {
        const int from = std::clamp(x - network.pad_px, 0, source.width_px() - 1);
        tensor.row(c, y)[x] = static_cast<float>(row[kRgbChannels * from + c]) / 255.0f;
      }
    }
  }
  return tensor;
}

void SetToMeans(const Tensor& of, Tensor& means) {
  const size_t pixels = of.region.Area();
  for (int c = 0; c < of.channels; ++c) {
    const float* const plane = of.values.data() + c * pixels;
    means.values[c] = static_cast<float>(std::accumulate(plane, plane + pixels, 0.0) /
                                         static_cast<double>(pixels));
  }
}

Tensor Compute(Layer layer, const std::vector<Tensor>& tensors, Size size) {
  Tensor result({0, 0, size.width, size.height}, layer.out_channels);
  std::vector<const Tensor*> inputs;
  for (const int input : layer.inputs) inputs.push_back(&tensors[input]);
  Tensor rounded;
  if (Multiplies(layer.op)) {
    rounded = *inputs[0];
    RoundInputs(rounded.values);
    inputs[0] = &rounded;
    RoundWeights(layer);
  }
  if (layer.op == Op::kGlobalAveragePool) SetToMeans(*inputs[0], result);
  reference::ComputeLayer(layer, inputs, result);
  return result;
}

}  // namespace

Image RunInEightBits(const Network& network, const ImageView& source) {
  const std::vector<Size> sizes = LayerSizes(network, source.spec.size());
  std::vector<Tensor> tensors = {PaddedInput(network, source, sizes[0])};
  for (size_t i = 1; i < network.layers.size(); ++i) {
    tensors.push_back(Compute(network.layers[i], tensors, sizes[i]));
  }
  const Tensor& last = tensors.back();
  Image result({source.width_px() * network.scale, source.height_px() * network.scale, kRgbChannels,
                SampleType::kU8});
  for (int c = 0; c < kRgbChannels; ++c) {
    for (int y = 0; y < result.spec().height_px; ++y) {
      uint8_t* row = result.mutable_view().row(y);
      for (int x = 0; x < result.spec().width_px; ++x) {
        const float level = std::clamp(last.at(c, x, y), 0.0f, 1.0f) * 255.0f;
        row[kRgbChannels * x + c] = static_cast<uint8_t>(std::floor(level + 0.5f));
      }
    }
  }
  return result;
}

}  // namespace upscaled::bench
