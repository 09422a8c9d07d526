// What the server itself refuses, before or instead of a handler.
#pragma once

#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "server/http/http_message.h"

namespace upscaled::server {

struct HttpFault {
  int status = 400;               // of HTTP
  absl::Status error;             // as server/base/error.h makes them
  std::vector<HttpField> fields;  // of the answer, beside those that describe its body
};

// Makes the answer that tells of a fault, in the form that a port's clients read. `request` is what
// was understood of it, which may be nothing. Called on the thread of all connections.
using HttpFaultAnswer =
    std::function<HttpResponse(const HttpFault& fault, const HttpRequest& request)>;

// The error's message, for people.
HttpResponse FaultText(const HttpFault& fault, const HttpRequest& request);

}  // namespace upscaled::server
