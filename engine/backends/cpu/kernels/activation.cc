#include "engine/backends/cpu/kernels/activation.h"

#include <algorithm>
#include <cmath>

namespace upscaled::cpu {
namespace {

// Calls `function` with every channel's first value and its slope.
template <typename Function>
void ForEachValue(const Tensor& tensor, int y, int x, int width_px, Function function) {
  for (int plane = 0; plane < tensor.planes(); ++plane) {
    float* row = tensor.At(y, x) + plane * tensor.plane_stride;
    for (int n = 0; n < width_px; ++n, row += tensor.pixel_stride) {
      for (int c = 0; c < tensor.pixel_stride; ++c) row[c] = function(row[c], plane * 16 + c);
    }
  }
}

}  // namespace

void ApplyActivation(const Layer& layer, const Tensor& tensor, int y, int x, int width_px) {
  const auto apply = [&](auto function) { ForEachValue(tensor, y, x, width_px, function); };
  switch (layer.activation) {
    case Activation::kNone:
      return;
    case Activation::kRelu:
      return apply([](float v, int) { return std::max(v, 0.0f); });
    case Activation::kLeakyRelu:
      return apply([slope = layer.slope[0]](float v, int) { return v < 0 ? v * slope : v; });
    case Activation::kPRelu:
      return apply(
          [&](float v, int c) { return v < 0 && c < layer.out_channels ? v * layer.slope[c] : v; });
    case Activation::kSigmoid:
      return apply([](float v, int) { return 1.0f / (1.0f + std::exp(-v)); });
    case Activation::kClip:
      return apply([&](float v, int) { return std::clamp(v, layer.clip_min, layer.clip_max); });
  }
}

}  // namespace upscaled::cpu
