// The scale of a network, by the pixel shuffles and resizes at its end.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "engine/model/limits.h"

namespace upscaled {

// By the channels of the convolution before it; each pixel gets this many planes. INVALID_ARGUMENT:
// no scale has so many.
inline absl::StatusOr<int> ScaleOfShuffle(int64_t channels, int64_t planes = 3) {
  const double area =
      static_cast<double>(channels) / static_cast<double>(std::max<int64_t>(planes, 1));
  const int scale = static_cast<int>(std::lround(std::sqrt(std::max(area, 0.0))));
  if (scale >= 1 && scale <= kMaxScale && channels == planes * scale * scale) return scale;
  return absl::InvalidArgumentError(absl::StrCat("its last convolution gives ", channels,
                                                 " channels, must be ", planes,
                                                 " for each of s x s pixels"));
}

// The product of positive factors. INVALID_ARGUMENT: it exceeds kMaxScale.
inline absl::StatusOr<int> ScaleOfFactors(const std::vector<int>& factors) {
  int64_t scale = 1;
  for (const int factor : factors) scale = std::min<int64_t>(scale * factor, kMaxScale + 1);
  if (scale <= kMaxScale) return static_cast<int>(scale);
  return absl::InvalidArgumentError(
      absl::StrCat("scales by ", scale, " or more, the limit is ", kMaxScale));
}

}  // namespace upscaled
