// The key that a command shows to servers.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace upscaled::client {

inline constexpr char kApiKeyVariable[] = "UPSCALE_API_KEY";

// That of `file` (its first line), else of UPSCALE_API_KEY; "" where there is neither. Errors never
// show what was read: NOT_FOUND for a file that cannot be read, INVALID_ARGUMENT for what is no
// key.
absl::StatusOr<std::string> FindApiKey(const std::string& file);

// The warning due before a key is sent to `server`, a list of endpoints or a URL; "": none.
std::string OpenKeyWarning(const std::string& server, bool tls);

}  // namespace upscaled::client
