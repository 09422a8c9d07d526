// Files at URLs, presigned ones for example, or at s3://BUCKET/KEY with a signature.
#pragma once

#include <cstdint>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/worker/allowed_places.h"
#include "client/worker/s3.h"
#include "engine/base/unique_fd.h"

namespace upscaled::client {

// `allowed` judges http(s) URLs, their addresses, and redirections. No proxy of the environment is
// used then, since it would hide the addresses. null: the caller chose the URL, and it may lead
// anywhere. A place in S3 is at the operator's endpoint, and the caller judges its bucket. All give
// CANCELLED after a request of `stop`; UNAVAILABLE if another try may succeed (no connection, a
// stalled one, an answer of 408, 429 or 5xx, or an answer before the whole body was sent);
// NOT_FOUND, PERMISSION_DENIED or INVALID_ARGUMENT if the answer refuses for good, for example by a
// redirection not to be followed; of S3, UNAUTHENTICATED if it refuses the keys themselves, and
// HttpUrlOf's errors. Messages have URLs without their secrets, and S3's name of the error.

// How long a file may take, redirections included, however steadily it moves: a worker does nothing
// else meanwhile. UNAVAILABLE later.
inline constexpr absl::Duration kMaxTransferTime = absl::Hours(4);

// The body of GET, redirects followed, in a file without a name, at its start. INVALID_ARGUMENT for
// more than `max_bytes`; INTERNAL when this machine cannot keep it.
absl::StatusOr<UniqueFd> Download(const std::string& url, int64_t max_bytes, const S3Access& access,
                                  const AllowedPlaces* allowed, std::stop_token stop,
                                  absl::Duration max_time = kMaxTransferTime);

// OK where HEAD finds something.
absl::Status Head(const std::string& url, const S3Access& access, std::stop_token stop);

// POSTs `body` with these fields, "NAME: VALUE". `answer` becomes the status code of the answer; 0:
// none came.
absl::Status Post(const std::string& url, const std::vector<std::string>& fields,
                  const std::string& body, const AllowedPlaces* allowed, std::stop_token stop,
                  int& answer);

// PUTs the file `fd`, whole.
absl::Status Upload(const std::string& url, int fd, const std::string& media_type,
                    const S3Access& access, const AllowedPlaces* allowed, std::stop_token stop,
                    absl::Duration max_time = kMaxTransferTime);

}  // namespace upscaled::client
