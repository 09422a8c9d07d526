#include "engine/backends/cpu/sums.h"

#include <cstddef>
#include <utility>

namespace upscaled::cpu {

Sums FindSums(const Network& network) {
  const std::vector<Layer>& layers = network.layers;
  std::vector<int> readers(layers.size());
  for (const Layer& layer : layers) {
    for (const int input : layer.inputs) ++readers[input];
  }
  const auto is_own_crop = [&](int index) {
    const Layer& layer = layers[index];
    return layer.op == Op::kCrop && layer.activation == Activation::kNone && readers[index] == 1;
  };
  Sums sums{.inputs = std::vector<Sums::Inputs>(layers.size()),
            .cropped = std::vector<bool>(layers.size()),
            .end_of = std::vector<int>(layers.size(), -1)};
  for (size_t i = 0; i < layers.size(); ++i) {
    if (layers[i].op != Op::kAdd) continue;
    // A crop comes second, else the layer that is computed first.
    Sums::Inputs inputs{layers[i].inputs[0], layers[i].inputs[1]};
    if (!is_own_crop(inputs.second) &&
        (is_own_crop(inputs.first) || inputs.first < inputs.second)) {
      std::swap(inputs.first, inputs.second);
    }
    sums.cropped[inputs.second] = is_own_crop(inputs.second);
    const bool plain = layers[i].activation == Activation::kNone;
    if (plain && readers[inputs.first] == 1) sums.end_of[inputs.first] = static_cast<int>(i);
    sums.inputs[i] = inputs;
  }
  return sums;
}

}  // namespace upscaled::cpu
