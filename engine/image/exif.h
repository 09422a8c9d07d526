// The one thing that we read of EXIF.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "engine/image/codec.h"

namespace upscaled {

// `segment` is the payload of a JPEG APP1 segment. nullopt: no EXIF, or none that states a valid
// orientation.
std::optional<Orientation> ExifOrientation(std::span<const uint8_t> segment);

}  // namespace upscaled
