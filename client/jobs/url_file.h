// Files that URLs name, presigned ones for example.
#pragma once

#include <cstdint>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/unique_fd.h"

namespace upscaled::client {

// All give CANCELLED when `stop` was requested; UNAVAILABLE when another try may do (no
// connection, one that stalled, an answer of 408, 429 or 5xx); NOT_FOUND, PERMISSION_DENIED or
// INVALID_ARGUMENT for what the answer refuses for good, a redirection that is not followed among
// it. Messages have URLs without their secrets.

// What GET gives, redirects followed, in a file without a name, at its start. INVALID_ARGUMENT for
// more than `max_bytes`; INTERNAL when this machine cannot keep it.
absl::StatusOr<UniqueFd> Download(const std::string& url, int64_t max_bytes, std::stop_token stop);

// POSTs `body` with these fields, "NAME: VALUE".
absl::Status Post(const std::string& url, const std::vector<std::string>& fields,
                  const std::string& body, std::stop_token stop);

// PUTs the file at `path`, whole.
absl::Status Upload(const std::string& url, const std::string& path, const std::string& media_type,
                    std::stop_token stop);

// `url` without user, password and query, which may be as good as a key. What is no URL stays.
std::string WithoutSecrets(const std::string& url);

}  // namespace upscaled::client
