// The container of a WebP file up to the pixels.
#pragma once

#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "engine/image/codec.h"

namespace upscaled {

// What ParseWebpHeader finds beside the ImageHeader. Empty when the file has no profile; `prefix`
// must be long enough for the header.
std::span<const uint8_t> WebpIccProfile(std::span<const uint8_t> prefix);

}  // namespace upscaled
