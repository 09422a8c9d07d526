// The Accept field: the format a client would like best.
#pragma once

#include <optional>
#include <string_view>

#include "engine/image/codec.h"

namespace upscaled::server {

// The written format with the most weight in `accept` (RFC 9110, section 12.5.1), the first of
// several. None if a wildcard weighs as much or more ("*/*", "image/*" of a higher weight), if
// `accept` names none of ours or cannot be read.
std::optional<ImageFormat> PreferredFormat(std::string_view accept);

}  // namespace upscaled::server
