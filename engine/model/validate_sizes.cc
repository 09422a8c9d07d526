// Network::ValidateSizes: every image gives a result of the right size.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "absl/strings/str_format.h"
#include "engine/base/status_macros.h"
#include "engine/model/limits.h"
#include "engine/model/network.h"
#include "engine/model/op.h"
#include "engine/model/shapes.h"
#include "engine/model/validate_errors.h"

namespace upscaled {
namespace {

// Pixels of the image added to an axis by padding to multiples, before the layers and in them.
int SlackPx(const Network& network) {
  int slack_px = network.align_px - 1;
  for (const Layer& layer : network.layers) {
    if (layer.op == Op::kPad) slack_px = std::max(slack_px, layer.factor - 1);
  }
  return slack_px;
}

// `per_image`: IsPerImage: backends know them to have one pixel.
absl::Status CheckSizes(const Network& network, const std::vector<bool>& per_image, int side_px) {
  const std::vector<Size> sizes = LayerSizes(network, {side_px, side_px});
  for (size_t i = 0; i < network.layers.size(); ++i) {
    const int side = sizes[i].width;
    if (side < 1 || side > kMaxSidePx) {
      return LayerError(network, i, "is ", side, " pixels wide for an image of ", side_px);
    }
    if (per_image[i] && side != 1) {
      return LayerError(network, i, "holds values for the whole image and is ", side,
                        " pixels wide, must be 1");
    }
    const Layer& layer = network.layers[i];
    for (const int input : layer.inputs) {
      const Operation& operation = OperationOf(layer.op);
      const bool broadcast =
          (operation.scales_per_image || operation.takes_moments) && sizes[input].width == 1;
      const bool any_size = broadcast || operation.resizes_second;
      if (!any_size && sizes[input] != sizes[layer.inputs[0]]) {
        return LayerError(network, i, "has inputs ", sizes[layer.inputs[0]].width, " and ",
                          sizes[input].width, " pixels wide for an image of ", side_px);
      }
    }
  }
  const int wanted = network.scale * side_px, given = sizes.back().width;
  const int slack = network.scale * SlackPx(network);
  if (given < wanted || given > wanted + slack) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "an image %d pixels wide gives %d pixels, must give %d (scale %d, pad_px %d, align_px %d)",
        side_px, given, wanted, network.scale, network.pad_px, network.align_px));
  }
  return absl::OkStatus();
}

// How a layer's side follows an image's: `period_px` more of the image are `step_px` more of it.
struct Growth {
  int64_t period_px = 1, step_px = 1;
};

// The least growth in steps of multiples of `divisor`.
Growth InMultiplesOf(Growth growth, int64_t divisor) {
  const int64_t times = divisor / std::gcd(growth.step_px, divisor);
  return {growth.period_px * times, growth.step_px * times};
}

Growth GrowthOf(const Layer& layer, const std::vector<Growth>& earlier) {
  Growth growth = earlier[layer.inputs[0]];
  int64_t period_px = growth.period_px;
  for (const int input : layer.inputs) period_px = std::lcm(period_px, earlier[input].period_px);
  growth = {period_px, growth.step_px * (period_px / growth.period_px)};
  const double density = OperationOf(layer.op).density(layer);
  if (density == 0) return {1, 0};
  if (layer.op == Op::kPad) return InMultiplesOf(growth, layer.factor);
  if (density < 1) {
    growth = InMultiplesOf(growth, layer.stride_px);
    growth.step_px /= layer.stride_px;
  }
  if (density > 1) growth.step_px *= std::lround(std::sqrt(density));
  return growth;
}

// Sizes along an axis follow a pattern. Its period is a multiple of all their divisors; checking
// two periods is checking all.
absl::Status CheckAllSizes(const Network& network) {
  std::vector<Growth> growths = {{network.align_px, network.align_px}};
  int64_t period_px = network.align_px;
  for (size_t i = 1; i < network.layers.size(); ++i) {
    growths.push_back(GrowthOf(network.layers[i], growths));
    period_px = std::lcm(period_px, growths[i].period_px);
    if (period_px > kMaxPeriodPx) {
      return LayerError(network, i, "raises the common multiple of align_px and all strides to ",
                        period_px, ", the limit is ", kMaxPeriodPx);
    }
  }
  const std::vector<bool> per_image = IsPerImage(network);
  for (int side_px = 1; side_px <= 2 * period_px; ++side_px) {
    RETURN_IF_ERROR(CheckSizes(network, per_image, side_px));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Network::ValidateSizes() const {
  RETURN_IF_ERROR(CheckRange("scale", scale, 1, kMaxScale));
  RETURN_IF_ERROR(CheckRange("pad_px", pad_px, 0, kMaxPadPx));
  RETURN_IF_ERROR(CheckRange("align_px", align_px, 1, kMaxPeriodPx));
  return CheckAllSizes(*this);
}

absl::Status Network::Validate() const {
  RETURN_IF_ERROR(ValidateLayers());
  return ValidateSizes();
}

}  // namespace upscaled
