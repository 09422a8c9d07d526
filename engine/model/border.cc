#include "engine/model/border.h"

#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "engine/base/int_math.h"
#include "engine/base/status_macros.h"
#include "engine/model/limits.h"
#include "engine/model/shapes.h"

namespace upscaled {
namespace {

// A side large enough for any border.
constexpr int kProbePx = 64 * kMaxPeriodPx;

// Sets pad_px to the layers' cut off images with sides in multiples of align_px.
absl::Status InferPadding(Network& network) {
  network.pad_px = 0;
  int period_px = network.align_px;  // of what is rounded up to multiples
  for (const Layer& layer : network.layers) {
    if (layer.op == Op::kPad) period_px = std::lcm(period_px, layer.factor);
  }
  const int probe_px = RoundUp(kProbePx, period_px);
  const int side = LayerSizes(network, {probe_px, probe_px}).back().width;
  const int lost = network.scale * probe_px - side;
  if (lost < 0 || lost % (2 * network.scale) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("the layers cut ", lost,
                     " result pixels off each axis, must be 0 or more and "
                     "a multiple of ",
                     2 * network.scale));
  }
  network.pad_px = lost / (2 * network.scale);
  return absl::OkStatus();
}

}  // namespace

absl::Status InferBorder(Network& network) {
  network.scale = 1;
  network.pad_px = 0;
  network.align_px = 1;
  RETURN_IF_ERROR(network.ValidateLayers());

  const double scale = std::sqrt(LayerDensities(network).back());
  network.scale = static_cast<int>(std::lround(scale));
  if (std::abs(scale - network.scale) > 1e-6 || network.scale < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("the layers scale by ", scale, ", must be a whole number"));
  }
  absl::Status unaligned;
  for (network.align_px = 1; network.align_px <= kMaxPeriodPx; ++network.align_px) {
    absl::Status status = InferPadding(network);
    if (status.ok()) status = network.ValidateSizes();
    if (status.ok()) return status;
    if (network.align_px == 1) unaligned = status;
  }
  return unaligned;
}

}  // namespace upscaled
