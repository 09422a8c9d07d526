// Exceptions of third-party code as a Status.
#pragma once

#include <exception>

#include "absl/status/status.h"

namespace upscaled::server {

// Returns `action`'s status, or INTERNAL with the text of its exception.
template <typename Action>
absl::Status Try(const Action& action) try {
  return action();
} catch (const std::exception& error) {
  return absl::InternalError(error.what());
}

}  // namespace upscaled::server
