// Names and messages for clients.
#pragma once

#include <string>

namespace upscaled {

// Whether it is UTF-8 without control characters.
bool IsText(const std::string& text);

// `text`, escaped where it is none.
std::string AsText(const std::string& text);

}  // namespace upscaled
