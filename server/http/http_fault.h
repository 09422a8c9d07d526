// Refusals by the server itself, before or instead of a handler.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "server/http/http_message.h"

namespace upscaled::server {

struct HttpFault {
  int status = 400;               // of HTTP
  absl::Status error;             // as server/base/error.h makes them
  std::vector<HttpField> fields;  // of the answer, beside those that describe its body
};

// Makes the answer to a fault, in the form of the port's clients. `request` is its understood part,
// perhaps nothing. Called on the thread of all connections.
using HttpFaultAnswer =
    std::function<HttpResponse(const HttpFault& fault, const HttpRequest& request)>;

// In a message: at most the first 100 bytes of a client's.
std::string Quoted(std::string_view sent);

// The error's human-readable message.
HttpResponse FaultText(const HttpFault& fault, const HttpRequest& request);

}  // namespace upscaled::server
