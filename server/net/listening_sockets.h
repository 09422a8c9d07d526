// The sockets of a listening address.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/unique_fd.h"
#include "server/base/endpoint.h"
#include "server/net/unix_socket.h"

namespace upscaled::server {

struct ListeningSockets {
  std::vector<UniqueFd> sockets;  // non-blocking, closed on exec
  // At which this machine reaches the first of them: its host is an address, not a name.
  Endpoint own;
  std::optional<UnixSocketFile> file;  // of a Unix socket
};

// Listens on every possible address of HOST:PORT, or on unix:PATH (see ListenOnUnixSocket). 0.0.0.0
// and [::] take IPv4 and IPv6; port 0 is a free one, the same for all. UNAVAILABLE names the
// address and the reason. INVALID_ARGUMENT: `address` has neither form.
absl::StatusOr<ListeningSockets> Listen(const std::string& address);

}  // namespace upscaled::server
