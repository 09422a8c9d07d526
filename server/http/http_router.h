// The choice of a handler for each request.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "server/http/http_exchange.h"
#include "server/http/http_fault.h"
#include "server/http/http_message.h"
#include "server/identity/principal.h"

namespace upscaled::server {

struct HttpRoute {
  std::string method;  // "GET" stands for HEAD, too
  // The whole path; {name} in "/v1/models/{name}" and "/v1/jobs/{id}/result" stands for one segment
  // of any name, not empty. Whole paths go first.
  std::string path;
  std::string description;  // one human-readable line; "": not named among the routes
  // Exactly one of them. Only `stream` takes a body.
  HttpHandler handler = nullptr;
  HttpStreamHandler stream = nullptr;
  uint64_t max_body_bytes = 0;  // of `stream`
  // The required role of callers if the port has a guard; nullopt: every caller may call.
  std::optional<Role> role = Role::kAdmin;
  std::string name = {};           // of its calls, as records have it
  bool head_only = false;          // a "GET" that takes HEAD and refuses GET itself
  bool takes_signed_urls = false;  // from callers without a key
};

// Whether a request may go to its route with a role; sets its caller. If not, returns the answer.
// Called on the thread of all connections, before anything of a body is read.
using HttpGuard =
    std::function<std::optional<HttpFault>(const HttpRoute& route, HttpRequest& request)>;

// A route's methods, as the field Allow names them: "GET, HEAD".
std::string MethodsOf(const HttpRoute& route);

// Immutable; as thread safe as its handlers.
class HttpRouter {
 public:
  // `title` is the first line of the text at "/", a list of the routes.
  HttpRouter(std::string title, std::vector<HttpRoute> routes);
  HttpRouter(const HttpRouter&) = delete;
  HttpRouter& operator=(const HttpRouter&) = delete;

  // The route of `request`; sets the request's parameter. Otherwise the refusal: 404 for an unknown
  // path, 405 for an unknown method, 413 for a body the route does not take.
  std::variant<const HttpRoute*, HttpFault> Find(HttpRequest& request) const;

 private:
  HttpFault Refusal(const HttpRequest& request) const;
  // "GET, HEAD"; "" if `path` is unknown.
  std::string AllowedMethods(std::string_view path) const;

  std::vector<HttpRoute> routes_;
  std::string welcome_, paths_;
};

}  // namespace upscaled::server
