// The coded pictures of a HEIC file. Private to engine/image.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "engine/image/heif_items.h"
#include "engine/image/hevc_parameters.h"

namespace upscaled {

// The parameters of `item`, a picture. INVALID_ARGUMENT: it is coded otherwise, and the message
// names how.
absl::StatusOr<HevcConfiguration> HevcConfigurationOf(const HeifItems& items, uint32_t item);

// The same for a picture, or for the equal tiles of a grid.
absl::StatusOr<HevcConfiguration> HeicConfigurationOf(const HeifItems& items, uint32_t item);

}  // namespace upscaled
