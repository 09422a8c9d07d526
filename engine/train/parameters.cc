#include "engine/train/parameters.h"

#include <algorithm>

#include "engine/base/check.h"

namespace upscaled::train {
namespace {

bool HasTrainedSlope(const Layer& layer) { return layer.activation == Activation::kPRelu; }

// Calls `visit(value, index)` for the parameters of a layer, where `index` is the value's place
// among them.
template <typename AnyLayer, typename Visit>
void ForEachParameter(AnyLayer& layer, Visit visit) {
  const size_t taps = size_t{1} * layer.kernel_px * layer.kernel_px;
  const size_t filters = layer.weights.size() / taps;
  for (size_t i = 0; i < layer.weights.size(); ++i) {
    visit(layer.weights[i], i % taps * filters + i / taps);
  }
  size_t next = layer.weights.size();
  for (auto& bias : layer.bias) visit(bias, next++);
  if (!HasTrainedSlope(layer)) return;
  for (auto& slope : layer.slope) visit(slope, next++);
}

}  // namespace

size_t ParameterCount(const Layer& layer) {
  return layer.weights.size() + layer.bias.size() +
         (HasTrainedSlope(layer) ? layer.slope.size() : 0);
}

std::vector<float> ReadParameters(const Network& network) {
  std::vector<float> parameters;
  for (const Layer& layer : network.layers) {
    const size_t first = parameters.size();
    parameters.resize(first + ParameterCount(layer));
    ForEachParameter(layer, [&](float value, size_t i) { parameters[first + i] = value; });
  }
  return parameters;
}

void WriteParameters(const std::vector<float>& parameters, Network& network) {
  size_t first = 0;
  for (Layer& layer : network.layers) {
    UPSCALED_CHECK(first + ParameterCount(layer) <= parameters.size());
    ForEachParameter(layer, [&](float& value, size_t i) { value = parameters[first + i]; });
    first += ParameterCount(layer);
  }
  UPSCALED_CHECK(first == parameters.size());
}

}  // namespace upscaled::train
