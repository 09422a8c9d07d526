// A port for HTTP/2 clients, in front of a server of connected sockets: gRPC's.
//
// gRPC's own listener ends for good when descriptors run out (CVE-2023-4785), and nothing in it
// limits connections or aborted calls (CVE-2023-44487). So connections are accepted here, within
// limits, and each is relayed to one end of a socket pair; the server gets the other end. TLS ends
// here, too.
#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/base/steady_wait.h"
#include "engine/base/unique_fd.h"
#include "server/base/endpoint.h"
#include "server/net/connection_table.h"
#include "server/net/descriptors.h"
#include "server/net/handshake_crew.h"
#include "server/net/http2_guard.h"
#include "server/net/listener.h"
#include "server/net/peer_address.h"
#include "server/net/tls_context.h"

namespace upscaled::server {

struct Http2PortOptions {
  std::string address;              // see ListenerOptions; empty: it gets connections by Take alone
  const TlsContext* tls = nullptr;  // outlives the port; null: no TLS
  HandshakeCrew* handshakes = nullptr;  // computes TLS's; null: the port's first thread does
  int reserved_descriptors = kReservedDescriptors;  // see ListenerOptions
  // For TLS and the preface. A connection without them gives way to a new one when there is no
  // place left, the oldest first.
  absl::Duration handshake_timeout = absl::Seconds(10);
  // The limit for a client without reads of its data.
  absl::Duration stall_timeout = absl::Seconds(60);
  // For the end of a connection after the client's end of its half (see RelayOptions).
  absl::Duration close_timeout = absl::Seconds(10);
  Http2Limits limits;
  int threads = 1;
  // Whether a peer speaks for many clients (see Http2Connection); null: no peer does.
  std::function<bool(const PeerAddress& peer)> is_proxy;
  // Takes the server's end of a connection. On any of the port's threads.
  std::function<void(UniqueFd socket, const PeerAddress& peer)> on_connection;
  // The port has ended a connection. On any of the port's threads.
  std::function<void(const PeerAddress& peer, Offence offence)> on_offence;
};

class Handshake;
struct Http2Connection;

class Http2Port {
 public:
  // `table` must outlive it. Errors as Listener::Start.
  static absl::StatusOr<std::unique_ptr<Http2Port>> Start(Http2PortOptions options,
                                                          ConnectionTable& table);
  // Ends all connections at once.
  ~Http2Port();

  int port() const { return own_endpoint().port; }  // 0 without an address, or on a Unix socket
  // Where this machine reaches it; empty without an address.
  Endpoint own_endpoint() const;
  // Serves another listener's accepted connection, unread. Thread safe. The first one starts the
  // threads of a port without an address. If the machine has none, the connection is refused.
  void Take(AcceptedConnection connection);
  // Closes the port and the silent connections; others go on.
  void StopAccepting();
  // After StopAccepting and before Close: ends clients without reads of their data for this time.
  // gRPC waits for them when it shuts down.
  void Hurry(absl::Duration stall_timeout);
  // After StopAccepting: waits, for at most `timeout`, until the server has closed its ends and the
  // clients have their data; then closes the rest.
  void Close(absl::Duration timeout);

 private:
  struct Worker;      // a thread and the connections that it relays
  struct SocketPair;  // of a connection
  using Handshakes = std::list<std::shared_ptr<Handshake>>;

  Http2Port(Http2PortOptions options, ConnectionTable& table);
  absl::Status Listen();
  // Once, unless the port has stopped accepting before.
  void StartWorkers();

  // The worker for accepting, and for handshakes.
  Worker& front();
  void OnAccepted(AcceptedConnection accepted);

  // Ends the oldest connection without a handshake. Picks one of `host` if it has too many.
  bool Evict(Refusal refusal, const std::string& host);
  void HandOver(std::shared_ptr<Http2Connection> connection);
  bool Allowed(const SocketPair& sockets) const;
  void StartRelay(Worker& worker, std::shared_ptr<Http2Connection> connection, SocketPair sockets);
  void OnEnded();
  void OnOffence(const Http2Connection& connection, Offence offence);

  const Http2PortOptions options_;
  ConnectionTable& table_;
  std::once_flag started_;
  std::vector<std::unique_ptr<Worker>> workers_;  // empty: no connection has come
  bool accepting_ = true;
  bool closed_ = false;
  // Only on the first worker's thread.
  bool stopped_ = false;
  Handshakes handshakes_;  // the oldest first
  size_t next_worker_ = 0;
  absl::Mutex mutex_;
  int relays_ ABSL_GUARDED_BY(mutex_) = 0;
  SteadyCondition ended_;  // all relays
  std::unique_ptr<Listener> listener_;
};

}  // namespace upscaled::server
