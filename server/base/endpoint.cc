#include "server/base/endpoint.h"

#include <arpa/inet.h>

#include <limits>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "engine/base/string_view.h"
#include "engine/base/unix_address.h"

namespace upscaled::server {
namespace {

constexpr std::string_view kUnix = "unix:";

// The host of an address without its brackets; "" when it is none.
std::string_view Unbracketed(std::string_view host) {
  if (!host.starts_with('[')) return host.find(':') == std::string_view::npos ? host : "";
  return host.ends_with(']') ? host.substr(1, host.size() - 2) : "";
}

absl::StatusOr<Endpoint> ParseUnix(std::string_view path) {
  if (path.empty() || path.find('\0') != std::string_view::npos) {
    return absl::InvalidArgumentError("must have a path behind unix:");
  }
  if (path.size() > kMaxSocketPathBytes) {
    return absl::InvalidArgumentError(absl::StrCat("has a path of ", path.size(),
                                                   " bytes; the path of a Unix socket has at most ",
                                                   kMaxSocketPathBytes));
  }
  return Endpoint{.path = std::string(path)};
}

}  // namespace

absl::StatusOr<Endpoint> ParseEndpoint(std::string_view text) {
  if (text.starts_with(kUnix)) return ParseUnix(text.substr(kUnix.size()));
  const size_t colon = text.rfind(':');
  Endpoint endpoint;
  if (colon != std::string_view::npos) endpoint.host = Unbracketed(text.substr(0, colon));
  if (endpoint.host.empty() || !absl::SimpleAtoi(ToAbsl(text.substr(colon + 1)), &endpoint.port) ||
      endpoint.port < 0 || endpoint.port > std::numeric_limits<uint16_t>::max()) {
    return absl::InvalidArgumentError(
        "must be HOST:PORT with a port from 0 to 65535, such as 127.0.0.1:8001 or [::1]:8001, or "
        "unix:PATH");
  }
  return endpoint;
}

std::string FormatEndpoint(const Endpoint& endpoint) {
  if (endpoint.is_unix()) return absl::StrCat(ToAbsl(kUnix), endpoint.path);
  const bool ipv6 = endpoint.host.find(':') != std::string::npos;
  return absl::StrCat(ipv6 ? "[" : "", endpoint.host, ipv6 ? "]:" : ":", endpoint.port);
}

bool IsLoopback(std::string_view host) {
  const std::string text(host);
  in_addr ipv4;
  if (inet_pton(AF_INET, text.c_str(), &ipv4) == 1) return ntohl(ipv4.s_addr) >> 24 == 127;
  return text == "::1" || text == "localhost";
}

bool IsLocal(const Endpoint& endpoint) { return endpoint.is_unix() || IsLoopback(endpoint.host); }

}  // namespace upscaled::server
