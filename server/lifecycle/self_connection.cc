#include "server/lifecycle/self_connection.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/base/unix_address.h"

namespace upscaled::server {
namespace {

absl::Status Failed(const char* what, int error) {
  return absl::UnavailableError(absl::StrCat(what, ": ", std::strerror(error)));
}

sigset_t PipeSignal() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGPIPE);
  return signals;
}

int FamilyOf(const Endpoint& endpoint) {
  if (endpoint.is_unix()) return AF_UNIX;
  return endpoint.host.find(':') == std::string::npos ? AF_INET : AF_INET6;
}

// To share no limit per address with clients; without it, it works as well.
void UseOwnAddress(int fd, const sockaddr& target) {
  if (target.sa_family != AF_INET) return;
  const auto& ipv4 = reinterpret_cast<const sockaddr_in&>(target);
  if (ntohl(ipv4.sin_addr.s_addr) >> 24 != 127) return;
  sockaddr_in own = {};
  own.sin_family = AF_INET;
  inet_pton(AF_INET, kSelfCallHost, &own.sin_addr);
  (void)bind(fd, reinterpret_cast<const sockaddr*>(&own), sizeof own);
}

}  // namespace

struct SelfConnection::Tls {
  struct Free {
    void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
    void operator()(SSL* ssl) const { SSL_free(ssl); }
  };
  std::unique_ptr<SSL_CTX, Free> context;
  std::unique_ptr<SSL, Free> ssl;
};

absl::StatusOr<std::unique_ptr<SelfConnection>> SelfConnection::Open(const SelfCallTarget& target,
                                                                     absl::Duration timeout) {
  const int fd = socket(FamilyOf(target.endpoint), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return Failed("no socket for a call to itself", errno);
  std::unique_ptr<SelfConnection> connection(new SelfConnection(fd, timeout));
  RETURN_IF_ERROR(connection->Connect(target.endpoint));
  if (target.tls) RETURN_IF_ERROR(connection->StartTls(target));
  return connection;
}

SelfConnection::SelfConnection(int fd, absl::Duration timeout)
    : fd_(fd), deadline_(std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(timeout)) {
  // OpenSSL writes without MSG_NOSIGNAL.
  const sigset_t pipe = PipeSignal();
  pthread_sigmask(SIG_BLOCK, &pipe, &old_signals_);
}

SelfConnection::~SelfConnection() {
  tls_.reset();
  close(fd_);
  const sigset_t pipe = PipeSignal();
  const timespec now = {};
  while (sigtimedwait(&pipe, nullptr, &now) >= 0) {
  }
  pthread_sigmask(SIG_SETMASK, &old_signals_, nullptr);
}

absl::Status SelfConnection::Connect(const Endpoint& endpoint) {
  if (endpoint.is_unix()) {
    const sockaddr_un address = UnixAddress(endpoint.path);
    return ConnectTo(reinterpret_cast<const sockaddr&>(address), sizeof address);
  }
  addrinfo hints = {};
  hints.ai_family = FamilyOf(endpoint);
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST;
  addrinfo* found = nullptr;
  if (const int error =
          getaddrinfo(endpoint.host.c_str(), absl::StrCat(endpoint.port).c_str(), &hints, &found);
      error != 0) {
    return absl::UnavailableError(absl::StrCat(endpoint.host, ": ", gai_strerror(error)));
  }
  const absl::Cleanup free_found = [found] { freeaddrinfo(found); };
  UseOwnAddress(fd_, *found->ai_addr);
  return ConnectTo(*found->ai_addr, found->ai_addrlen);
}

absl::Status SelfConnection::ConnectTo(const sockaddr& address, socklen_t bytes) {
  if (connect(fd_, &address, bytes) == 0) return absl::OkStatus();
  if (errno != EINPROGRESS) return Failed("its port takes no connection", errno);
  RETURN_IF_ERROR(Await(POLLOUT));
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(fd_, SOL_SOCKET, SO_ERROR, &error, &size);
  return error == 0 ? absl::OkStatus() : Failed("its port takes no connection", error);
}

absl::Status SelfConnection::StartTls(const SelfCallTarget& target) {
  tls_ = std::make_unique<Tls>();
  tls_->context.reset(SSL_CTX_new(TLS_client_method()));
  if (tls_->context == nullptr) return absl::UnavailableError("no memory for TLS");
  SSL_CTX* const context = tls_->context.get();
  SSL_CTX_set_verify(context, SSL_VERIFY_NONE, nullptr);
  constexpr uint8_t kAlpn[] = {2, 'h', '2'};
  SSL_CTX_set_alpn_protos(context, kAlpn, sizeof kAlpn);
  if (target.client_certificates) {  // read anew, as they may have been replaced
    SSL_CTX_use_certificate_chain_file(context, target.cert.c_str());
    SSL_CTX_use_PrivateKey_file(context, target.key.c_str(), SSL_FILETYPE_PEM);
  }
  tls_->ssl.reset(SSL_new(context));
  if (tls_->ssl == nullptr) return absl::UnavailableError("no memory for TLS");
  SSL_set_fd(tls_->ssl.get(), fd_);
  SSL_set_connect_state(tls_->ssl.get());
  return absl::OkStatus();
}

absl::Status SelfConnection::Await(short events) const {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
      deadline_ - std::chrono::steady_clock::now());
  pollfd wait = {.fd = fd_, .events = events, .revents = 0};
  const int ready = poll(&wait, 1, static_cast<int>(std::max<int64_t>(left.count(), 0)));
  if (ready > 0) return absl::OkStatus();
  if (ready < 0) return Failed("cannot wait for its port", errno);
  return absl::UnavailableError("its port does not answer in time");
}

absl::Status SelfConnection::AwaitTls(int result, const char* what) const {
  switch (SSL_get_error(tls_->ssl.get(), result)) {
    case SSL_ERROR_WANT_READ:
      return Await(POLLIN);
    case SSL_ERROR_WANT_WRITE:
      return Await(POLLOUT);
    default: {
      const char* const reason = ERR_reason_error_string(ERR_peek_last_error());
      return absl::UnavailableError(
          absl::StrCat(what, ": ", reason == nullptr ? "the connection was closed" : reason));
    }
  }
}

absl::Status SelfConnection::Handshake() {
  if (tls_ == nullptr) return absl::OkStatus();
  while (true) {
    ERR_clear_error();
    const int result = SSL_do_handshake(tls_->ssl.get());
    if (result == 1) return absl::OkStatus();
    RETURN_IF_ERROR(AwaitTls(result, "TLS' handshake with its port failed"));
  }
}

bool SelfConnection::saw_certificate() const {
  if (tls_ == nullptr) return false;
  X509* const certificate = SSL_get_peer_certificate(tls_->ssl.get());
  X509_free(certificate);
  return certificate != nullptr;
}

absl::Status SelfConnection::Write(std::string_view bytes) {
  while (!bytes.empty()) {
    ERR_clear_error();
    const ssize_t count =
        tls_ != nullptr ? SSL_write(tls_->ssl.get(), bytes.data(), static_cast<int>(bytes.size()))
                        : send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count > 0) {
      bytes.remove_prefix(static_cast<size_t>(count));
    } else if (tls_ != nullptr) {
      RETURN_IF_ERROR(AwaitTls(static_cast<int>(count), "its port takes no bytes"));
    } else if (errno == EAGAIN) {
      RETURN_IF_ERROR(Await(POLLOUT));
    } else {
      return Failed("its port takes no bytes", errno);
    }
  }
  return absl::OkStatus();
}

absl::Status SelfConnection::ReadSome(std::string& bytes) {
  char buffer[4096];
  while (true) {
    ERR_clear_error();
    const ssize_t count = tls_ != nullptr ? SSL_read(tls_->ssl.get(), buffer, sizeof buffer)
                                          : recv(fd_, buffer, sizeof buffer, 0);
    if (count > 0) {
      bytes.append(buffer, static_cast<size_t>(count));
      return absl::OkStatus();
    }
    if (tls_ != nullptr) {
      RETURN_IF_ERROR(AwaitTls(static_cast<int>(count), "its port gives no answer"));
    } else if (count < 0 && errno == EAGAIN) {
      RETURN_IF_ERROR(Await(POLLIN));
    } else {
      return count == 0 ? absl::UnavailableError("its port closed the connection")
                        : Failed("its port gives no answer", errno);
    }
  }
}

}  // namespace upscaled::server
