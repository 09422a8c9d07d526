// The Accept field: which format a client would like best.
#pragma once

#include <optional>
#include <string_view>

#include "engine/image/codec.h"

namespace upscaled::server {

// The format of those that we write which `accept` (RFC 9110, section 12.5.1) likes best, the first
// of several; none where it likes anything as well or better ("*/*", "image/*" of a higher weight),
// names none of them or cannot be read.
std::optional<ImageFormat> PreferredFormat(std::string_view accept);

}  // namespace upscaled::server
