// Network::ValidateLayers: later code's assumptions about a network's layers.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/status_macros.h"
#include "engine/model/limits.h"
#include "engine/model/network.h"
#include "engine/model/op.h"
#include "engine/model/shapes.h"
#include "engine/model/validate_errors.h"

namespace upscaled {
namespace {

absl::Status CheckInputs(const Network& network, size_t index) {
  const Layer& layer = network.layers[index];
  const Operation& operation = OperationOf(layer.op);
  if (layer.inputs.size() < operation.min_inputs || layer.inputs.size() > operation.max_inputs) {
    return LayerError(network, index, "has ", layer.inputs.size(), " inputs, must have ",
                      operation.min_inputs, "..", operation.max_inputs);
  }
  for (const int input : layer.inputs) {
    if (input < 0 || input >= static_cast<int>(index)) {
      return LayerError(network, index, "reads layer ", input, ", which is no earlier layer");
    }
  }
  const int given = layer.inputs.empty() ? 0 : network.layers[layer.inputs[0]].out_channels;
  if (layer.op != Op::kInput && layer.in_channels != given) {
    return LayerError(network, index, "takes ", layer.in_channels, " channels, its input has ",
                      given);
  }
  return absl::OkStatus();
}

absl::Status CheckChannels(const Network& network, size_t index) {
  const Layer& layer = network.layers[index];
  if (layer.out_channels < 1 || layer.out_channels > kMaxChannels) {
    return LayerError(network, index, "has ", layer.out_channels, " channels, outside 1..",
                      kMaxChannels);
  }
  int given = 0;
  for (const int input : layer.inputs) given += network.layers[input].out_channels;
  const Operation& operation = OperationOf(layer.op);
  if (const int64_t second = operation.second_channels(layer);
      second != 0 && network.layers[layer.inputs[1]].out_channels != second) {
    return LayerError(network, index, "has a second input of ",
                      network.layers[layer.inputs[1]].out_channels, " channels, must have ",
                      second);
  }
  const int implied = operation.channels(layer, given);
  if (implied != 0 && layer.out_channels != implied) {
    return LayerError(network, index, "gives ", layer.out_channels, " channels, must give ",
                      implied);
  }
  if (const absl::Status status = operation.check_channels(layer); !status.ok()) {
    return LayerError(network, index, status.message());
  }
  for (const int input : layer.inputs) {
    const int other = network.layers[input].out_channels;
    if (operation.equal_channels && other != layer.in_channels) {
      return LayerError(network, index, "has inputs of ", layer.in_channels, " and ", other,
                        " channels");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckParameters(const Network& network, size_t index) {
  const Layer& layer = network.layers[index];
  const absl::Status status = OperationOf(layer.op).check(layer);
  return status.ok() ? status : LayerError(network, index, status.message());
}

absl::Status CheckValues(const Network& network, size_t index, const char* what,
                         const std::vector<float>& values, int64_t expected) {
  if (static_cast<int64_t>(values.size()) != expected) {
    return LayerError(network, index, "has ", values.size(), " ", what, ", must have ", expected);
  }
  const auto bad =
      std::find_if(values.begin(), values.end(), [](float v) { return !std::isfinite(v); });
  if (bad != values.end()) {
    return LayerError(network, index, what, "[", bad - values.begin(), "] is ", *bad);
  }
  return absl::OkStatus();
}

absl::Status CheckWeights(const Network& network, size_t index) {
  const Layer& layer = network.layers[index];
  const Operation& operation = OperationOf(layer.op);
  RETURN_IF_ERROR(CheckValues(network, index, "weights", layer.weights, operation.weights(layer)));
  RETURN_IF_ERROR(CheckValues(network, index, "bias values", layer.bias, operation.biases(layer)));

  const int64_t slopes = layer.activation == Activation::kLeakyRelu ? 1
                         : layer.activation == Activation::kPRelu   ? layer.out_channels
                                                                    : 0;
  RETURN_IF_ERROR(CheckValues(network, index, "slopes", layer.slope, slopes));
  if (layer.activation == Activation::kClip && !(layer.clip_min <= layer.clip_max)) {
    return LayerError(network, index, "clips to ", layer.clip_min, "..", layer.clip_max);
  }
  return absl::OkStatus();
}

absl::Status CheckMoments(const Network& network, size_t index,
                          const std::vector<bool>& per_image) {
  const Layer& layer = network.layers[index];
  const int moments = layer.inputs[1], given = network.layers[moments].out_channels;
  const int64_t wanted = OperationOf(layer.op).moments(layer);
  if (per_image[moments] && given == wanted) return absl::OkStatus();
  return LayerError(network, index, "takes ", wanted, " means over the image, is given ", given,
                    per_image[moments] ? " values" : " values per pixel");
}

// Per-image values and planes of pixels meet only in the second input of a few operations.
absl::Status CheckPerImage(const Network& network, size_t index,
                           const std::vector<bool>& per_image) {
  const Layer& layer = network.layers[index];
  const Operation& operation = OperationOf(layer.op);
  if (operation.only_per_image && !per_image[layer.inputs[0]]) {
    return LayerError(network, index, "must follow a global average pool");
  }
  if (operation.takes_moments) return CheckMoments(network, index, per_image);
  for (size_t i = 1; i < layer.inputs.size(); ++i) {
    const bool broadcast = operation.scales_per_image && per_image[layer.inputs[1]];
    if (!broadcast && per_image[layer.inputs[i]] != per_image[layer.inputs[0]]) {
      return LayerError(network, index, "mixes values per pixel with values per image");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckCost(const Network& network) {
  const std::vector<double> densities = LayerDensities(network);
  double activations = 0;
  for (size_t i = 0; i < network.layers.size(); ++i) {
    if (densities[i] > kMaxScale * kMaxScale) {
      return LayerError(network, i, "holds ", densities[i], " pixels per source pixel, limit ",
                        kMaxScale * kMaxScale);
    }
    activations += densities[i] * network.layers[i].out_channels;
  }
  if (activations > kMaxActivationsPerPixel) {
    return absl::InvalidArgumentError(
        absl::StrFormat("network holds %.0f activations per source pixel, the limit is %d",
                        activations, kMaxActivationsPerPixel));
  }
  return absl::OkStatus();
}

absl::Status CheckAllUsed(const Network& network) {
  std::vector<bool> used(network.layers.size(), false);
  used.back() = true;
  for (const Layer& layer : network.layers) {
    for (const int input : layer.inputs) used[input] = true;
  }
  const auto unused = std::find(used.begin(), used.end(), false);
  if (unused == used.end()) return absl::OkStatus();
  return LayerError(network, unused - used.begin(), "has a result that no layer reads");
}

}  // namespace

absl::Status Network::ValidateLayers() const {
  RETURN_IF_ERROR(CheckCounts());
  for (size_t i = 0; i < layers.size(); ++i) {
    if ((layers[i].op == Op::kInput) != (i == 0)) {
      return LayerError(*this, i, "the first layer, and no other, must be the input");
    }
    RETURN_IF_ERROR(CheckParameters(*this, i));
    RETURN_IF_ERROR(CheckInputs(*this, i));
    RETURN_IF_ERROR(CheckChannels(*this, i));
    RETURN_IF_ERROR(CheckWeights(*this, i));
  }
  if (layers.back().out_channels != 3) {
    return LayerError(*this, layers.size() - 1, "the result has ", layers.back().out_channels,
                      " channels, must have 3");
  }
  const std::vector<bool> per_image = IsPerImage(*this);
  for (size_t i = 0; i < layers.size(); ++i) {
    RETURN_IF_ERROR(CheckPerImage(*this, i, per_image));
  }
  RETURN_IF_ERROR(CheckAllUsed(*this));
  return CheckCost(*this);
}

}  // namespace upscaled
