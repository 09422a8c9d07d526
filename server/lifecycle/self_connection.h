// One short-lived connection to the server's own port, plain or with TLS, with a deadline.
#pragma once

#include <signal.h>
#include <sys/socket.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/lifecycle/self_call.h"

namespace upscaled::server {

// Lives on one thread. The thread gets no SIGPIPE meanwhile. All errors are UNAVAILABLE.
class SelfConnection {
 public:
  // Everything together may take `timeout`.
  static absl::StatusOr<std::unique_ptr<SelfConnection>> Open(const SelfCallTarget& target,
                                                              absl::Duration timeout);
  ~SelfConnection();

  // TLS' handshake; OK without TLS.
  absl::Status Handshake();
  // Whether the server has presented its certificate.
  bool saw_certificate() const;
  absl::Status Write(std::string_view bytes);
  // Appends at least one byte.
  absl::Status ReadSome(std::string& bytes);

 private:
  struct Tls;
  SelfConnection(int fd, absl::Duration timeout);
  absl::Status Connect(const Endpoint& endpoint);
  absl::Status ConnectTo(const sockaddr& address, socklen_t bytes);
  absl::Status StartTls(const SelfCallTarget& target);
  // Waits for poll's `events`.
  absl::Status Await(short events) const;
  // After a failed call of OpenSSL: waits until the socket is ready, or returns the error.
  absl::Status AwaitTls(int result, const char* what) const;

  const int fd_;
  sigset_t old_signals_;
  const std::chrono::steady_clock::time_point deadline_;
  std::unique_ptr<Tls> tls_;  // null: plain
};

}  // namespace upscaled::server
