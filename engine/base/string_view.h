// Debian's Abseil is built with a string_view of its own; its functions do not take the standard's.
#pragma once

#include <string_view>

#include "absl/strings/string_view.h"

namespace upscaled {

inline absl::string_view ToAbsl(std::string_view s) { return {s.data(), s.size()}; }

}  // namespace upscaled
