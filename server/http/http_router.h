// What answers which request.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "server/http/http_exchange.h"
#include "server/http/http_fault.h"
#include "server/http/http_message.h"

namespace upscaled::server {

struct HttpRoute {
  std::string method;  // "GET" stands for HEAD, too
  // The whole path; "/v1/models/{name}" stands for one more segment of any name, which is not
  // empty. Whole paths go first.
  std::string path;
  std::string description;  // one line, for people; "": not named among the routes
  // Exactly one of them. A body is for `stream` alone.
  HttpHandler handler = nullptr;
  HttpStreamHandler stream = nullptr;
  uint64_t max_body_bytes = 0;  // of `stream`
};

// Immutable; as thread safe as its handlers.
class HttpRouter {
 public:
  // `title` is the first line of the text at "/", which names the routes.
  HttpRouter(std::string title, std::vector<HttpRoute> routes);
  HttpRouter(const HttpRouter&) = delete;
  HttpRouter& operator=(const HttpRouter&) = delete;

  // The route of `request`, whose parameter is set then.
  // Else why it is refused: 404 where there is no such path, 405 where it has no such
  // method, 413 where the request has a body that the route does not take.
  std::variant<const HttpRoute*, HttpFault> Find(HttpRequest& request) const;

 private:
  HttpFault Refusal(const HttpRequest& request) const;
  // "GET, HEAD"; "" where nothing is at `path`.
  std::string AllowedMethods(std::string_view path) const;

  std::vector<HttpRoute> routes_;
  std::string welcome_, paths_;
};

}  // namespace upscaled::server
