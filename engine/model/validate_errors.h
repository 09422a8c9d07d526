// The errors of a network's checks.
#pragma once

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/string_view.h"
#include "engine/model/network.h"

namespace upscaled {

// INVALID_ARGUMENT with the layer's name.
template <typename... Args>
absl::Status LayerError(const Network& network, size_t index, const Args&... what) {
  const Layer& layer = network.layers[index];
  return absl::InvalidArgumentError(absl::StrCat("layer ", index, " '", layer.name, "' (",
                                                 ToAbsl(OpName(layer.op)), "): ", what...));
}

// INVALID_ARGUMENT with the value and the limits unless `value` lies in them.
inline absl::Status CheckRange(const char* what, int value, int min, int max) {
  if (value >= min && value <= max) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(what, " is ", value, ", outside ", min, "..", max));
}

}  // namespace upscaled
