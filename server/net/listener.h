// A listening port: accepts connections within limits and hands them over, and survives a lack of
// descriptors.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "engine/base/unique_fd.h"
#include "server/base/endpoint.h"
#include "server/net/connection_table.h"
#include "server/net/descriptors.h"
#include "server/net/io_thread.h"
#include "server/net/listening_sockets.h"
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
  // HOST:PORT: a name, for all its addresses, or an address (IPv6 in brackets). 0.0.0.0 and [::]
  // take IPv4 and IPv6. Port 0 is a free one, the same for all. Or unix:PATH (see
  // ListenOnUnixSocket).
  std::string address;
  // Descriptors kept from connections: files, devices and other ports need them.
  int reserved_descriptors = kReservedDescriptors;
  // Takes the connection; on the thread of the listener.
  std::function<void(AcceptedConnection)> on_accepted;
  // Asked before a connection from `host` is refused: closes one of less worth than a new one and
  // returns whether it has. On the thread of the listener; empty: never.
  std::function<bool(Refusal refusal, const std::string& host)> make_room;
};

// Listens from Start to Stop.
class Listener {
 public:
  // `thread` and `table` must outlive it. UNAVAILABLE: cannot listen on an address, with the
  // reason; INVALID_ARGUMENT: an invalid address. Both name it.
  static absl::StatusOr<std::unique_ptr<Listener>> Start(ListenerOptions options, IoThread& thread,
                                                         ConnectionTable& table);
  ~Listener();  // as Stop

  int port() const { return own_endpoint_.port; }  // 0: a Unix socket
  // Where this machine reaches it: its host is an address, not a name.
  const Endpoint& own_endpoint() const { return own_endpoint_; }
  // Closes the port, and removes the file of a Unix socket; no callback runs or begins afterwards.
  // Not on the listener's thread.
  void Stop();

 private:
  struct Acceptor;  // Asio stays out of this header: it compiles slowly

  Listener(ListenerOptions options, ListeningSockets sockets, IoThread& thread,
           ConnectionTable& table);
  void Await(Acceptor& acceptor);
  void Pause(Acceptor& acceptor);
  void AcceptSome(Acceptor& acceptor);

  // Closes the longest waiting connection, so its client does not hang.
  void DropOne(Acceptor& acceptor);
  void Admit(UniqueFd socket, PeerAddress peer);
  bool MakeRoom(Refusal refusal, const std::string& host);

  const ListenerOptions options_;
  const Endpoint own_endpoint_;
  std::optional<UnixSocketFile> file_;
  IoThread& thread_;
  ConnectionTable& table_;
  bool stopped_ = false;
  // Used only on the thread.
  bool closed_ = false;
  UniqueFd spare_;  // closed to accept, and close, where there is no descriptor left
  std::list<Acceptor> acceptors_;
};

}  // namespace upscaled::server
