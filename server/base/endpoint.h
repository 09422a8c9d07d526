// HOST:PORT, as settings name the addresses of ports.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace upscaled::server {

struct Endpoint {
  std::string host;  // a name, or an address; an IPv6 address is without brackets
  int port = 0;      // 0: any free one
};

// INVALID_ARGUMENT says what the text should be ("must be ..."). An IPv6 host stands in brackets.
absl::StatusOr<Endpoint> ParseEndpoint(std::string_view text);
std::string FormatEndpoint(const Endpoint& endpoint);

// Whether only this machine reaches `host`.
bool IsLoopback(std::string_view host);

}  // namespace upscaled::server
