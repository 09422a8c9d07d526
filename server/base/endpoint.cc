#include "server/base/endpoint.h"

#include <limits>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "engine/base/string_view.h"

namespace upscaled::server {
namespace {

// The host of an address without its brackets; "" when it is none.
std::string_view Unbracketed(std::string_view host) {
  if (!host.starts_with('[')) return host.find(':') == std::string_view::npos ? host : "";
  return host.ends_with(']') ? host.substr(1, host.size() - 2) : "";
}

}  // namespace

absl::StatusOr<Endpoint> ParseEndpoint(std::string_view text) {
  const size_t colon = text.rfind(':');
  Endpoint endpoint;
  if (colon != std::string_view::npos) endpoint.host = Unbracketed(text.substr(0, colon));
  if (endpoint.host.empty() || !absl::SimpleAtoi(ToAbsl(text.substr(colon + 1)), &endpoint.port) ||
      endpoint.port < 0 || endpoint.port > std::numeric_limits<uint16_t>::max()) {
    return absl::InvalidArgumentError(
        "must be HOST:PORT with a port from 0 to 65535, such as 127.0.0.1:8001 or [::1]:8001");
  }
  return endpoint;
}

std::string FormatEndpoint(const Endpoint& endpoint) {
  const bool ipv6 = endpoint.host.find(':') != std::string::npos;
  return absl::StrCat(ipv6 ? "[" : "", endpoint.host, ipv6 ? "]:" : ":", endpoint.port);
}

bool IsLoopback(std::string_view host) {
  return host.starts_with("127.") || host == "::1" || host == "localhost";
}

}  // namespace upscaled::server
