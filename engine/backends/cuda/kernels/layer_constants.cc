#include "engine/backends/cuda/kernels/layer_constants.h"

#include <cstddef>

namespace upscaled::cuda {
namespace {

// Returns the value for channel `c`: one of them, or the only one; zero without values.
float ValueAt(const std::vector<float>& values, int c) {
  if (values.size() == 1) return values[0];
  return static_cast<size_t>(c) < values.size() ? values[c] : 0.0f;
}

}  // namespace

ActivationParams ActivationOf(const Layer& layer) {
  const auto kind = [&] {
    switch (layer.activation) {
      case Activation::kNone:
        return ActivationKind::kNone;
      case Activation::kRelu:
        return ActivationKind::kRelu;
      case Activation::kLeakyRelu:
      case Activation::kPRelu:
        return ActivationKind::kSloped;
      case Activation::kSigmoid:
        return ActivationKind::kSigmoid;
      case Activation::kClip:
        return ActivationKind::kClip;
      case Activation::kSilu:
        return ActivationKind::kSilu;
      case Activation::kMish:
        return ActivationKind::kMish;
      case Activation::kGelu:
        return ActivationKind::kGelu;
      case Activation::kGeluTanh:
        return ActivationKind::kGeluTanh;
      case Activation::kSoftplus:
        return ActivationKind::kSoftplus;
    }
    return ActivationKind::kNone;
  }();
  return {kind, layer.clip_min, layer.clip_max};
}

float BiasOf(const Layer& layer, int channel) { return ValueAt(layer.bias, channel); }
float SlopeOf(const Layer& layer, int channel) { return ValueAt(layer.slope, channel); }

std::vector<float> PackConstants(const Layer& layer) {
  std::vector<float> packed(static_cast<size_t>(PlaneCount(layer.out_channels)) * kPlaneConstants);
  for (int c = 0; c < layer.out_channels; ++c) {
    float* plane = &packed[static_cast<size_t>(c / kPlaneChannels) * kPlaneConstants];
    const int lane = c % kPlaneChannels;
    plane[lane] = BiasOf(layer, c);
    plane[kSlopes + lane] = SlopeOf(layer, c);
    const bool scales =
        layer.op == Op::kAffine || layer.op == Op::kPixelNorm || layer.op == Op::kGroupNorm;
    if (scales) plane[kFactors + lane] = layer.weights[c];
  }
  return packed;
}

}  // namespace upscaled::cuda
