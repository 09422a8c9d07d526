// Errors of the HTTP service as absl::Status.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace upscaled::client {

// The error behind a problem document (RFC 9457) of the server, with the details of DetailsOf: as
// over gRPC. `http_status` if it has no code of its own. INTERNAL for other answers.
absl::Status FromProblem(int http_status, absl::string_view json, absl::string_view retry_after);

// The error of an answer without success. An answer other than a problem document is not our
// server's but, most likely, a proxy's in front of it: 502, 503 and 504 without one are errors of
// the connection. `retry_after`: the field, "" without.
absl::Status FromHttpAnswer(int http_status, absl::string_view body, absl::string_view retry_after);

}  // namespace upscaled::client
