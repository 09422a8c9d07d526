#include "engine/model/border.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/model/limits.h"
#include "engine/model/shapes.h"

namespace upscaled {
namespace {

// An image large enough for any border, and a multiple of every alignment.
constexpr int kProbePx = 64 * kMaxPeriodPx;

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
  const int side = LayerSizes(network, {kProbePx, kProbePx}).back().width;
  const int lost = network.scale * kProbePx - side;
  if (lost < 0 || lost % (2 * network.scale) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("the layers cut ", lost,
                     " result pixels off each axis, must be 0 or more and "
                     "a multiple of ",
                     2 * network.scale));
  }
  network.pad_px = lost / (2 * network.scale);

  const absl::Status unaligned = network.ValidateSizes();
  if (unaligned.ok()) return unaligned;
  for (network.align_px = 2; network.align_px <= kMaxPeriodPx; network.align_px *= 2) {
    if (network.ValidateSizes().ok()) return absl::OkStatus();
  }
  return unaligned;
}

}  // namespace upscaled
