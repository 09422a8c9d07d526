// An HTTP/2 client's connection, from its acceptance to its end.
#pragma once

#include <memory>
#include <utility>

#include "server/net/connection_table.h"
#include "server/net/http2_guard.h"
#include "server/net/peer_address.h"
#include "server/net/socket_stream.h"

namespace upscaled::server {

// A proxy's refused calls are those of many clients: they are counted, but end nothing. Owned by
// one thread at a time. Members go in reverse order: its place is free once it is closed.
struct Http2Connection {
  Http2Connection(ConnectionTable::Place taken, PeerAddress from,
                  std::unique_ptr<SocketStream> socket, const Http2Limits& limits, absl::Time now,
                  bool is_proxy = false)
      : place(std::move(taken)),
        peer(std::move(from)),
        guard(
            limits,
            [this, is_proxy](CallFault fault) {
              const bool within_limit = place.Take(fault);
              return within_limit || (is_proxy && fault == CallFault::kRefused);
            },
            now),
        stream(std::move(socket)) {}
  Http2Connection(const Http2Connection&) = delete;
  Http2Connection& operator=(const Http2Connection&) = delete;

  ConnectionTable::Place place;
  const PeerAddress peer;
  Http2Guard guard;
  std::unique_ptr<SocketStream> stream;
};

}  // namespace upscaled::server
