// The coded pictures of a HEIC file. Private to engine/image.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "engine/image/heif_items.h"
#include "engine/image/hevc_parameters.h"

namespace upscaled {

// The parameters of `item`, a picture. INVALID_ARGUMENT: it is coded otherwise, which the message
// names.
absl::StatusOr<HevcConfiguration> HevcConfigurationOf(const HeifItems& items, uint32_t item);

// The same of a picture, or of the tiles of a grid, which are alike.
absl::StatusOr<HevcConfiguration> HeicConfigurationOf(const HeifItems& items, uint32_t item);

}  // namespace upscaled
