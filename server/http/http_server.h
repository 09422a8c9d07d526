// An HTTP/1.1 port.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/http/http_fault.h"
#include "server/http/http_host.h"
#include "server/http/http_limits.h"
#include "server/http/http_router.h"
#include "server/net/connection_table.h"
#include "server/net/handshake_crew.h"
#include "server/net/io_thread.h"
#include "server/net/io_thread_link.h"
#include "server/net/listener.h"
#include "server/net/tls_context.h"
#include "server/net/trusted_proxies.h"
#include "server/spool/body_budget.h"

namespace upscaled::server {

struct HttpServerOptions {
  std::string address;  // HOST:PORT or unix:PATH, as ListenerOptions has it
  std::string title;    // the first line of the text at "/"
  std::vector<HttpRoute> routes;
  HttpGuard guard;  // null: anybody may call
  HttpFaultAnswer fault_answer = FaultText;
  const TrustedProxies* proxies = nullptr;  // null: none is trusted; outlives the server
  HttpLimits limits;
  std::shared_ptr<BodyBudget> budget;  // of several ports; null: one of its own, without disk
  // Not null: HTTPS, with the certificates of the time a connection begins. Outlives the server.
  const TlsContext* tls = nullptr;
  HandshakeCrew* handshakes = nullptr;  // computes TLS's; null: the server's thread does
  // Takes the connections of HTTP/2 clients (see ChooseProtocol), unread and with `tls` before the
  // handshake, on the server's thread. Empty: they are refused.
  std::function<void(AcceptedConnection)> on_http2;
};

// Serves from Start to Close, on one thread; no client can hold it up. Thread safe except Close and
// destruction.
class HttpServer {
 public:
  // UNAVAILABLE: cannot listen on the address; INVALID_ARGUMENT: the address is invalid. Both name
  // it. `table` must outlive it.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(HttpServerOptions options,
                                                           ConnectionTable& table);
  ~HttpServer() { Close(absl::ZeroDuration()); }
  // The actual port, also if asked for port 0.
  int port() const { return listener_->port(); }
  // Bytes of disk in use by bodies.
  int64_t spool_bytes_in_use() const { return host_.bodies->spool_bytes_in_use(); }

  // No connection is kept for another request from now on; new ones are still accepted.
  void StartDraining() { host_.draining = true; }
  // Closes the port and idle connections, and waits for at most `timeout` for the answers to begun
  // requests. Returns whether all have got theirs.
  bool AwaitAnswers(absl::Duration timeout);
  // The same, and closes the others. The exchanges left fail with CANCELLED.
  void Close(absl::Duration timeout);

 private:
  HttpServer(HttpServerOptions options, ConnectionTable& table);
  absl::Status Listen(const std::string& address);
  void Serve(AcceptedConnection connection);

  const TlsContext* const tls_;
  const std::function<void(AcceptedConnection)> on_http2_;
  HttpHost host_;
  IoThread thread_{"http"};  // its end is the end of all sessions, which use what is above
  std::unique_ptr<Listener> listener_;
  bool closed_ = false;
};

}  // namespace upscaled::server
