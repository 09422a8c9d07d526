// A command's keys: one to show to servers, and one to sign URLs.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace upscaled::client {

inline constexpr char kApiKeyVariable[] = "UPSCALE_API_KEY";
inline constexpr char kUrlKeyVariable[] = "UPSCALE_URL_KEY";

// The places of a secret.
struct SecretPlaces {
  const char* flag;  // of a file, for errors
  const char* variable;
};
// The first line of `file`; without a file, the variable; "" if neither is given. Errors never show
// a secret: NOT_FOUND: the file cannot be read; INVALID_ARGUMENT: the text is not one word.
absl::StatusOr<std::string> FindSecret(const SecretPlaces& places, const std::string& file);
// The key of --api-key-file and UPSCALE_API_KEY.
absl::StatusOr<std::string> FindApiKey(const std::string& file);

// The warning due before a key is sent to `server`, a list of endpoints or a URL; "": none.
std::string OpenKeyWarning(const std::string& server, bool tls);

}  // namespace upscaled::client
