// Calls with a message of the contract as JSON for their answer.
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "server/calls/call_environment.h"
#include "server/http/http_message.h"

namespace upscaled::server {

// The JSON of `source`, or its problem; recorded as a call of `method`.
HttpResponse AnswerWithJson(const CallEnvironment& calls, const HttpRequest& request,
                            const std::string& method,
                            const std::function<absl::StatusOr<std::string>()>& source);

}  // namespace upscaled::server
