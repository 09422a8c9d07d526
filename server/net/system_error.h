// The status for a failed system call.
#pragma once

#include <cstring>

#include "absl/status/status.h"

namespace upscaled::server {

// UNAVAILABLE, in the words for `error`, an errno.
inline absl::Status SystemError(int error) { return absl::UnavailableError(std::strerror(error)); }

}  // namespace upscaled::server
