#include "engine/model/network.h"

#include "absl/strings/str_cat.h"
#include "engine/model/limits.h"
#include "engine/model/multiply_adds.h"
#include "engine/model/op.h"
#include "engine/model/shapes.h"

namespace upscaled {

absl::Status Network::CheckCounts() const {
  if (layers.empty() || layers.size() > kMaxLayers) {
    return absl::InvalidArgumentError(
        absl::StrCat("network has ", layers.size(), " layers, outside 1..", kMaxLayers));
  }
  if (WeightCount() <= kMaxWeights) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("network has ", WeightCount(), " weights, the limit is ", kMaxWeights));
}

int64_t Network::WeightCount() const {
  int64_t count = 0;
  for (const Layer& layer : layers) {
    count += static_cast<int64_t>(layer.weights.size() + layer.bias.size() + layer.slope.size());
  }
  return count;
}

double Network::MacsPerOutputPixel() const {
  const std::vector<double> densities = LayerDensities(*this);
  double macs = 0;  // per pixel of the image
  for (size_t i = 0; i < layers.size(); ++i) {
    macs += MultiplyAdds(layers[i], densities[i]);
  }
  return macs / (double{1} * scale * scale);
}

std::string_view OpName(Op op) { return OperationOf(op).name; }

std::string_view ActivationName(Activation activation) {
  switch (activation) {
    case Activation::kNone:
      return "none";
    case Activation::kRelu:
      return "relu";
    case Activation::kLeakyRelu:
      return "leaky relu";
    case Activation::kPRelu:
      return "prelu";
    case Activation::kSigmoid:
      return "sigmoid";
    case Activation::kClip:
      return "clip";
    case Activation::kSilu:
      return "silu";
    case Activation::kMish:
      return "mish";
    case Activation::kGelu:
      return "gelu";
    case Activation::kGeluTanh:
      return "gelu (tanh)";
    case Activation::kSoftplus:
      return "softplus";
  }
  return "unknown";
}

}  // namespace upscaled
