// The other end of a connection, as a text and as the unit of limits for its calls and connections.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace upscaled::server {

// The host of a client on a Unix socket within this very process: it calls itself.
inline constexpr char kOwnProcess[] = "unix:self";

struct PeerAddress {
  // "ipv4:127.0.0.1:40312" or "ipv6:[::1]:40312", as gRPC writes peers; "unix:USER:PROCESS".
  std::string name;
  // Without the port: "127.0.0.1", and the /64 of an IPv6 address ("2001:db8:0:1::/64"), since a
  // host has that many to choose from. IPv4 in IPv6 counts as IPv4. Over a Unix socket the user,
  // "unix:1000", or kOwnProcess.
  std::string host;
  // The names in its certificate (see SocketStream); null: none.
  std::shared_ptr<const std::vector<std::string>> certificate_names = nullptr;
};

}  // namespace upscaled::server
