// The other end of a connection, as a text and as the one that its calls and connections count for.
#pragma once

#include <string>

namespace upscaled::server {

struct PeerAddress {
  // "ipv4:127.0.0.1:40312" or "ipv6:[::1]:40312", as gRPC writes peers.
  std::string name;
  // Without the port: "127.0.0.1", and the /64 of an IPv6 address ("2001:db8:0:1::/64"), since a
  // host has that many to choose from. IPv4 in IPv6 counts as IPv4.
  std::string host;
};

}  // namespace upscaled::server
