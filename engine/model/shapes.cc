#include "engine/model/shapes.h"

#include <algorithm>
#include <cstdint>

#include "engine/base/int_math.h"

namespace upscaled {
namespace {

// One side of a layer's output, from that side of its first input.
int64_t UnboundedSide(const Layer& layer, int side) {
  switch (layer.op) {
    case Op::kConv:
      return FloorDiv(side + 2 * layer.padding_px - layer.kernel_px, layer.stride_px) + 1;
    case Op::kConvTranspose:
      return int64_t{side - 1} * layer.stride_px + layer.kernel_px - 2 * layer.padding_px;
    case Op::kPixelShuffle:
    case Op::kResizeNearest:
    case Op::kResizeBilinear:
      return int64_t{side} * layer.factor;
    case Op::kCrop:
      return side - 2 * layer.crop_px;
    case Op::kPad:
      return int64_t{side} + 2 * layer.padding_px;
    case Op::kGlobalAveragePool:
    case Op::kFullyConnected:
      return 1;
    case Op::kInput:
    case Op::kAdd:
    case Op::kMul:
    case Op::kConcat:
    case Op::kAffine:
    case Op::kActivation:
      return side;
  }
  return side;
}

// Before validation layers may ask for any size.
int OutputSide(const Layer& layer, int side) {
  constexpr int64_t kBound = kMaxSidePx + 1;
  return static_cast<int>(std::clamp(UnboundedSide(layer, side), -kBound, kBound));
}

double DensityFactor(const Layer& layer) {
  switch (layer.op) {
    case Op::kConv:
      return 1.0 / (layer.stride_px * layer.stride_px);
    case Op::kConvTranspose:
      return layer.stride_px * layer.stride_px;
    case Op::kPixelShuffle:
    case Op::kResizeNearest:
    case Op::kResizeBilinear:
      return layer.factor * layer.factor;
    case Op::kGlobalAveragePool:
      return 0;
    default:
      return 1;
  }
}

}  // namespace

Size PaddedSize(const Network& network, Size image) {
  return {RoundUp(image.width + 2 * network.pad_px, network.align_px),
          RoundUp(image.height + 2 * network.pad_px, network.align_px)};
}

Size OutputSize(const Layer& layer, Size input) {
  return {OutputSide(layer, input.width), OutputSide(layer, input.height)};
}

std::vector<Size> LayerSizes(const Network& network, Size image) {
  std::vector<Size> sizes;
  sizes.reserve(network.layers.size());
  for (const Layer& layer : network.layers) {
    if (layer.op == Op::kInput) {
      sizes.push_back(PaddedSize(network, image));
      continue;
    }
    const Size in = sizes[layer.inputs[0]];
    sizes.push_back(OutputSize(layer, in));
  }
  return sizes;
}

std::vector<double> LayerDensities(const Network& network) {
  std::vector<double> densities;
  densities.reserve(network.layers.size());
  for (const Layer& layer : network.layers) {
    const double in = layer.op == Op::kInput ? 1.0 : densities[layer.inputs[0]];
    densities.push_back(in * DensityFactor(layer));
  }
  return densities;
}

std::vector<bool> IsPerImage(const Network& network) {
  std::vector<bool> per_image;
  per_image.reserve(network.layers.size());
  for (const Layer& layer : network.layers) {
    per_image.push_back(layer.op == Op::kGlobalAveragePool ||
                        (layer.op != Op::kInput && per_image[layer.inputs[0]]));
  }
  return per_image;
}

}  // namespace upscaled
