// The Accept field: the format that a client likes best, and those that it takes.
#pragma once

#include <optional>
#include <string_view>

#include "engine/image/codec.h"

namespace upscaled::server {

// The written format with the most weight in `accept` (RFC 9110, section 12.5.1), the first of
// several. None if a wildcard weighs as much or more ("*/*", "image/*" of a higher weight), if
// `accept` names none of ours or cannot be read.
std::optional<ImageFormat> PreferredFormat(std::string_view accept);

// Whether `accept` takes an image of `format`: its most specific range decides. A list without any
// range for images ("application/json", "") does not ask for one of a format, and takes all.
bool AcceptsFormat(std::string_view accept, ImageFormat format);

}  // namespace upscaled::server
