// Calls that are answered with a message of the contract as JSON.
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "server/calls/call_environment.h"
#include "server/http/http_message.h"

namespace upscaled::server {

// The JSON that `source` gives, or the problem that it tells; recorded as a call of `method`.
HttpResponse AnswerWithJson(const CallEnvironment& calls, const HttpRequest& request,
                            const std::string& method,
                            const std::function<absl::StatusOr<std::string>()>& source);

}  // namespace upscaled::server
