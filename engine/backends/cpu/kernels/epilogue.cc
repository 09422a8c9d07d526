#include "engine/backends/cpu/kernels/epilogue.h"

#include <algorithm>

namespace upscaled::cpu {
namespace {

HugeBuffer Padded(const std::vector<float>& values, int padded_count) {
  HugeBuffer buffer(padded_count);
  std::fill_n(buffer.data(), padded_count, 0.0f);
  std::copy(values.begin(), values.end(), buffer.data());
  return buffer;
}

// One slope per channel, for any name of it in the activation.
std::vector<float> Slopes(const Layer& layer) {
  switch (layer.activation) {
    case Activation::kLeakyRelu:
      return std::vector<float>(layer.out_channels, layer.slope.at(0));
    case Activation::kPRelu:
      return layer.slope;
    default:
      return {};
  }
}

}  // namespace

EpilogueArgs::Kind KindOf(Activation activation) {
  switch (activation) {
    case Activation::kNone:
      return EpilogueArgs::kNone;
    case Activation::kRelu:
    case Activation::kLeakyRelu:
    case Activation::kPRelu:
      return EpilogueArgs::kSlope;
    case Activation::kClip:
      return EpilogueArgs::kClip;
    case Activation::kSigmoid:
      return EpilogueArgs::kSigmoid;
    case Activation::kSilu:
      return EpilogueArgs::kSilu;
    case Activation::kMish:
      return EpilogueArgs::kMish;
    case Activation::kGelu:
      return EpilogueArgs::kGelu;
    case Activation::kGeluTanh:
      return EpilogueArgs::kGeluTanh;
    case Activation::kSoftplus:
      return EpilogueArgs::kSoftplus;
  }
  return EpilogueArgs::kNone;
}

Epilogue::Epilogue(const Layer& layer, int padded_channels)
    : bias_(Padded(layer.bias, padded_channels)),
      slope_(Padded(Slopes(layer), padded_channels)),
      args_{KindOf(layer.activation), bias_.data(), slope_.data(), layer.clip_min, layer.clip_max} {
}

}  // namespace upscaled::cpu
