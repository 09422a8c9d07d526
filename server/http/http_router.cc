#include "server/http/http_router.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "server/base/error.h"

namespace upscaled::server {
namespace {

// The text in place of the pattern's {name}; "" if it has no name; nullopt: `path` is another one.
std::optional<std::string_view> Match(std::string_view pattern, std::string_view path) {
  const size_t open = pattern.find('{');
  if (open == std::string_view::npos) {
    return pattern == path ? std::optional(std::string_view()) : std::nullopt;
  }
  const std::string_view folder = pattern.substr(0, open);
  const std::string_view rest = pattern.substr(pattern.find('}') + 1);
  if (!path.starts_with(folder) || !path.ends_with(rest) ||
      path.size() <= folder.size() + rest.size()) {
    return std::nullopt;
  }
  const std::string_view segment =
      path.substr(folder.size(), path.size() - folder.size() - rest.size());
  return segment.find('/') == std::string_view::npos ? std::optional(segment) : std::nullopt;
}

HttpFault PathFault(int status, absl::StatusCode code, std::string_view message,
                    std::vector<HttpField> fields = {}) {
  return {status, MakeError(code, ErrorReason::kUnspecified, message), std::move(fields)};
}

// Refuses a body the route does not take.
HttpFault NoBodyTaken(const HttpRequest& request) {
  const std::string body = request.content_length
                               ? absl::StrCat("a body of ", *request.content_length, " bytes")
                               : "a body of any length";
  return {413, MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kLimitExceeded,
                         absl::StrCat(body, "; ", Quoted(request.path), " takes 0 bytes"),
                         {{"limit", "body-bytes"}, {"maximum", "0"}})};
}

}  // namespace

std::string MethodsOf(const HttpRoute& route) {
  if (route.method != "GET") return route.method;
  return route.head_only ? "HEAD" : "GET, HEAD";
}

HttpRouter::HttpRouter(std::string title, std::vector<HttpRoute> routes)
    : routes_(std::move(routes)), welcome_(std::move(title)) {
  size_t width = 0;
  for (const HttpRoute& route : routes_) width = std::max(width, route.path.size());
  welcome_.append("\n\n");
  std::string_view last;
  for (const HttpRoute& route : routes_) {
    if (route.description.empty()) continue;
    if (route.path != "/" && route.path != last) absl::StrAppend(&paths_, ", ", route.path);
    last = route.path;
    absl::StrAppendFormat(&welcome_, "%-*s  %s\n", static_cast<int>(width), route.path,
                          route.description);
  }
  routes_.push_back({.method = "GET",
                     .path = "/",
                     .handler =
                         [this](const HttpRequest&, std::unique_ptr<HttpResponseWriter> writer) {
                           writer->Send(TextResponse(200, welcome_));
                         },
                     .role = std::nullopt});
}

std::variant<const HttpRoute*, HttpFault> HttpRouter::Find(HttpRequest& request) const {
  const std::string method = request.method == "HEAD" ? "GET" : request.method;
  const HttpRoute* found = nullptr;
  std::string_view parameter;
  for (const HttpRoute& route : routes_) {
    if (route.method != method) continue;
    const std::optional<std::string_view> match = Match(route.path, request.path);
    if (!match || (found != nullptr && !match->empty())) continue;
    found = &route;
    parameter = *match;
    if (parameter.empty()) break;  // a whole path
  }
  if (found == nullptr) return Refusal(request);
  if (request.has_body && found->stream == nullptr) return NoBodyTaken(request);
  request.parameter = parameter;
  return found;
}

HttpFault HttpRouter::Refusal(const HttpRequest& request) const {
  std::string allowed = AllowedMethods(request.path);
  if (allowed.empty()) {
    return PathFault(404, absl::StatusCode::kNotFound,
                     absl::StrCat("there is no ", Quoted(request.path), "; there are /", paths_));
  }
  return PathFault(405, absl::StatusCode::kUnimplemented,
                   absl::StrCat(Quoted(request.path), " takes ", allowed, ", not ", request.method),
                   {{"Allow", allowed}});
}

std::string HttpRouter::AllowedMethods(std::string_view path) const {
  std::vector<std::string> methods;
  for (const HttpRoute& route : routes_) {
    const std::string its = MethodsOf(route);
    if (Match(route.path, path) && std::ranges::count(methods, its) == 0) methods.push_back(its);
  }
  return absl::StrJoin(methods, ", ");
}

}  // namespace upscaled::server
