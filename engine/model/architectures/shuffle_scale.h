// What a network that ends with a pixel shuffle says of its scale.
#pragma once

#include <cmath>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "engine/model/limits.h"

namespace upscaled {

// Of an RGB network by the channels of its last convolution. INVALID_ARGUMENT: no scale has so
// many.
inline absl::StatusOr<int> ScaleOfShuffle(int64_t channels) {
  const int scale = static_cast<int>(std::lround(std::sqrt(static_cast<double>(channels) / 3)));
  if (scale >= 1 && scale <= kMaxScale && channels == 3 * scale * scale) return scale;
  return absl::InvalidArgumentError(absl::StrCat("its last convolution gives ", channels,
                                                 " channels, must be 3 for each of s x s pixels"));
}

}  // namespace upscaled
