// Errors as people, programs and shells want them.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "nlohmann/json.hpp"

namespace upscaled::client {

// One line: the fault, the server's reason, and the remedy.
std::string ErrorLine(const absl::Status& error);

// Code, origin, reason, message, metadata, retry_delay_s.
nlohmann::json ErrorJson(const absl::Status& error);

// The ExitCode of a command with the end `status`.
int ExitCodeFor(const absl::Status& status);

// Prints the line to standard error and returns the exit code.
int Fail(const absl::Status& error);

}  // namespace upscaled::client
