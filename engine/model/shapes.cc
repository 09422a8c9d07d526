#include "engine/model/shapes.h"

#include <algorithm>
#include <cstdint>

#include "engine/base/int_math.h"
#include "engine/model/op.h"

namespace upscaled {
namespace {

// Before validation layers may ask for any size.
int OutputSide(const Layer& layer, int side) {
  constexpr int64_t kBound = kMaxSidePx + 1;
  return static_cast<int>(
      std::clamp(OperationOf(layer.op).output_side(layer, side), -kBound, kBound));
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
    densities.push_back(in * OperationOf(layer.op).density(layer));
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
