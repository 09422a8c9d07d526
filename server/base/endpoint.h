// HOST:PORT or unix:PATH, as settings name the addresses of ports.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace upscaled::server {

struct Endpoint {
  std::string host;  // a name, or an address; an IPv6 address is without brackets
  int port = 0;      // 0: any free one
  std::string path;  // of a Unix socket, which has neither host nor port; empty: TCP
  bool is_unix() const { return !path.empty(); }
};

// INVALID_ARGUMENT says what the text should be ("must be ..."). An IPv6 host stands in brackets.
absl::StatusOr<Endpoint> ParseEndpoint(std::string_view text);
std::string FormatEndpoint(const Endpoint& endpoint);

// Whether only this machine reaches `host`.
bool IsLoopback(std::string_view host);
bool IsLocal(const Endpoint& endpoint);  // likewise; Unix sockets are

}  // namespace upscaled::server
