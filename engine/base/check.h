// For what only a mistake of ours can break: ends the process, in release builds too. What callers
// or files can get wrong is an absl::Status instead.
#pragma once

#include "absl/base/internal/raw_logging.h"

#define UPSCALED_CHECK(condition) ABSL_INTERNAL_CHECK(condition, "broken invariant")
