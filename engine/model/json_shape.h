// The look at a JSON text before a parser builds its values, which take far more than the text
// does.
#pragma once

#include <string_view>

#include "absl/status/status.h"

namespace upscaled {

// INVALID_ARGUMENT: nested deeper than kMaxJsonDepth. RESOURCE_EXHAUSTED: more than kMaxJsonValues
// values. A text that is no JSON may pass.
absl::Status CheckJsonShape(std::string_view text);

}  // namespace upscaled
