// For conditions only a mistake of ours can break: ends the process, in release builds too.
// Mistakes of callers or files are an absl::Status instead.
#pragma once

#include "absl/base/optimization.h"

namespace upscaled {

// Prints the place and the condition to stderr and aborts.
[[noreturn]] void FailCheck(const char* file, int line, const char* condition);

}  // namespace upscaled

#define UPSCALED_CHECK(condition)                                                                \
  do {                                                                                           \
    if (ABSL_PREDICT_FALSE(!(condition))) ::upscaled::FailCheck(__FILE__, __LINE__, #condition); \
  } while (false)
