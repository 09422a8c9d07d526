// Networks of one plane, of three and of four.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/model/architectures/network_builder.h"

namespace upscaled {

// Returns whether networks of this number of planes run: 1 is luma, 3 is RGB, 4 is RGBA.
inline bool ArePlanes(int64_t planes) { return planes == 1 || planes == 3 || planes == 4; }

// INVALID_ARGUMENT: they do not run.
inline absl::Status CheckPlanes(int64_t planes) {
  if (ArePlanes(planes)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("takes ", planes, " planes, must be 1, 3 or 4"));
}

// Returns the input layer of the network's first convolution, from an RGB layer: its luma, itself,
// or itself with an opaque fourth plane.
int PlanesOf(NetworkBuilder& builder, int image, int64_t planes);

// Returns the RGB result of `result` with this many planes: colour next to luma is resized (see
// WithColour), and the fourth plane is dropped, as alpha is resized outside the network.
int RgbOf(NetworkBuilder& builder, int image, int result, int64_t planes, int scale);

}  // namespace upscaled
