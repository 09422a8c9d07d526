// The border consumed by a network of valid convolutions, worked out from its layers.
#pragma once

#include "absl/status/status.h"
#include "engine/model/network.h"

namespace upscaled {

// Sets scale, pad_px and align_px from the layers: the scale they have, the border they cut off,
// and the least alignment at which the sizes of all branches meet. Then validates. For upconv_7
// this finds 2, 7 and 1; for cunet x2 2, 18 and 2. INVALID_ARGUMENT when nothing fits.
absl::Status InferBorder(Network& network);

}  // namespace upscaled
