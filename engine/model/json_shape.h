// The look at a JSON text before a parser builds its values: they take far more than the text.
#pragma once

#include <string_view>

#include "absl/status/status.h"

namespace upscaled {

// INVALID_ARGUMENT: nested deeper than kMaxJsonDepth. RESOURCE_EXHAUSTED: more than kMaxJsonValues
// values. A text other than JSON may pass.
absl::Status CheckJsonShape(std::string_view text);

}  // namespace upscaled
