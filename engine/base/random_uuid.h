// Unique names.
#pragma once

#include <string>
#include <string_view>

namespace upscaled {

// Version 4 of RFC 9562.
std::string RandomUuid();

// Whether `text` is as RandomUuid writes them: small hexadecimal digits, and dashes in their
// places.
bool IsUuid(std::string_view text);

}  // namespace upscaled
