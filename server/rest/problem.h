// Errors as HTTP tells them: status codes and application/problem+json (RFC 9457).
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "server/http/http_fault.h"
#include "server/http/http_message.h"

namespace upscaled::server {

// By the reason in `status`; it must not be OK.
int HttpStatusOf(const absl::Status& status);

// The problem object: type, title, status, detail, reason, code, request_id unless it is empty,
// metadata, and retry_after_seconds where there is a delay.
std::string ProblemJson(const absl::Status& status, std::string_view request_id);

// An answer with this object, and Retry-After with 429 and 503.
HttpResponse ProblemResponse(const absl::Status& status, std::string_view request_id);

// A refusal by the port itself, in the same form.
HttpResponse ProblemResponse(const HttpFault& fault, std::string_view request_id = "");

}  // namespace upscaled::server
