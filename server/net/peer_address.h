// The other end of a socket.
#pragma once

#include "server/base/peer_address.h"

struct sockaddr;

namespace upscaled::server {

// The peer at an IPv4 or IPv6 address; empty texts for others.
PeerAddress ToPeerAddress(const sockaddr& address);

// The peer of the connected socket `fd`, with `address` at its other end. The peer of a Unix socket
// is its user.
PeerAddress PeerOf(int fd, const sockaddr& address);

}  // namespace upscaled::server
