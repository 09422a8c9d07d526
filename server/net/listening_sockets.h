// The sockets of a listening address.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/unique_fd.h"

namespace upscaled::server {

struct ListeningSockets {
  std::vector<UniqueFd> sockets;  // non-blocking, closed on exec
  int port = 0;                   // of all of them
  // At which this machine reaches the first of them: an address.
  std::string own_host;
};

// Listens on every address of HOST:PORT on which this machine can. 0.0.0.0 and [::] take IPv4 and
// IPv6; port 0 is a free one, the same for all. UNAVAILABLE names the address and why there is
// none; INVALID_ARGUMENT when it is no HOST:PORT.
absl::StatusOr<ListeningSockets> Listen(const std::string& address);

}  // namespace upscaled::server
