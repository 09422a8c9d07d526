// Names that nobody else has.
#pragma once

#include <string>

namespace upscaled {

// Version 4 of RFC 9562.
std::string RandomUuid();

}  // namespace upscaled
