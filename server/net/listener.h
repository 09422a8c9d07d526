// A listening port: accepts connections within limits and hands them over, and survives a lack of
// descriptors.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/base/unique_fd.h"
#include "server/base/endpoint.h"
#include "server/net/connection_table.h"
#include "server/net/descriptors.h"
#include "server/net/io_thread.h"
#include "server/net/peer_address.h"

namespace upscaled::server {

// A connection: non-blocking, closed on exec, over TCP without Nagle's delay. Members go in reverse
// order: the place in the table is free once the socket is closed.
struct AcceptedConnection {
  ConnectionTable::Place place;
  PeerAddress peer;
  UniqueFd socket;
};

struct ListenerOptions {
  // HOST:PORT: a name, or an address (IPv6 in brackets), of which all addresses are listened on.
  // 0.0.0.0 and [::] take IPv4 and IPv6. Port 0 is a free one, the same for all. Or unix:PATH (see
  // ListenOnUnixSocket).
  std::string address;
  // Descriptors that no connection may take: files, devices and other ports need them.
  int reserved_descriptors = kReservedDescriptors;
  // Takes the connection; on the thread of the listener.
  std::function<void(AcceptedConnection)> on_accepted;
  // Asked before a connection from `host` is refused: closes one that is worth less than a new one
  // and returns whether it has. On the thread of the listener; empty: never.
  std::function<bool(Refusal refusal, const std::string& host)> make_room;
};

// Listens from Start to Stop.
class Listener {
 public:
  // `thread` and `table` must outlive it. UNAVAILABLE names the address that cannot be listened on
  // and why; INVALID_ARGUMENT an invalid one.
  static absl::StatusOr<std::unique_ptr<Listener>> Start(ListenerOptions options, IoThread& thread,
                                                         ConnectionTable& table);
  // As Stop.
  virtual ~Listener() = default;

  int port() const { return own_endpoint().port; }  // 0: a Unix socket
  // Where this machine reaches it: its host is an address, not a name.
  virtual const Endpoint& own_endpoint() const = 0;
  // Closes the port, and removes the file of a Unix socket; no callback runs or begins afterwards.
  // Not on the listener's thread.
  virtual void Stop() = 0;
};

}  // namespace upscaled::server
