// An HTTP/2 client's connection, from its acceptance to its end.
#pragma once

#include <memory>
#include <utility>

#include "server/net/connection_table.h"
#include "server/net/http2_guard.h"
#include "server/net/peer_address.h"
#include "server/net/socket_stream.h"

namespace upscaled::server {

// Owned by one thread at a time. Members go in reverse order: its place is free once it is closed.
struct Http2Connection {
  Http2Connection(ConnectionTable::Place taken, PeerAddress from,
                  std::unique_ptr<SocketStream> socket, const Http2Limits& limits, absl::Time now)
      : place(std::move(taken)),
        peer(std::move(from)),
        guard(
            limits, [this](CallFault fault) { return place.Take(fault); }, now),
        stream(std::move(socket)) {}
  Http2Connection(const Http2Connection&) = delete;
  Http2Connection& operator=(const Http2Connection&) = delete;

  ConnectionTable::Place place;
  const PeerAddress peer;
  Http2Guard guard;
  std::unique_ptr<SocketStream> stream;
};

}  // namespace upscaled::server
