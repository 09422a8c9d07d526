#include "server/net/listening_sockets.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/net/system_error.h"

namespace upscaled::server {
namespace {

constexpr char kLoopback[] = "127.0.0.1";
constexpr int kPortAttempts = 10;  // free ports tried until one is free on all addresses

// An address to bind to; its port is changed in place.
struct SocketAddress {
  sockaddr_storage storage = {};
  socklen_t bytes = 0;

  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  in_port_t& port() {
    return storage.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(storage).sin6_port
                                         : reinterpret_cast<sockaddr_in&>(storage).sin_port;
  }
};

absl::StatusOr<std::vector<SocketAddress>> Resolve(const std::string& host, int port) {
  addrinfo hints = {};
  hints.ai_flags = AI_PASSIVE;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), absl::StrCat(port).c_str(), &hints, &found);
      error != 0) {
    return absl::UnavailableError(gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, freeaddrinfo);
  std::vector<SocketAddress> addresses;
  for (const addrinfo* info = found; info != nullptr; info = info->ai_next) {
    if (info->ai_family != AF_INET && info->ai_family != AF_INET6) continue;
    SocketAddress& address = addresses.emplace_back();
    std::memcpy(&address.storage, info->ai_addr, info->ai_addrlen);
    address.bytes = info->ai_addrlen;
  }
  return addresses;
}

std::string NumericHost(SocketAddress& address) {
  std::array<char, NI_MAXHOST> host = {};
  getnameinfo(address.get(), address.bytes, host.data(), host.size(), nullptr, 0, NI_NUMERICHOST);
  return host.data();
}

// `port`: in network order; 0 stays 0.
absl::StatusOr<UniqueFd> Bind(SocketAddress& address, in_port_t port, bool both_families) {
  UniqueFd socket(
      ::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return SystemError(errno);
  const int on = 1, only_ipv6 = both_families ? 0 : 1;
  setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (address.storage.ss_family == AF_INET6) {
    setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &only_ipv6, sizeof(only_ipv6));
  }
  address.port() = port;
  if (bind(socket.get(), address.get(), address.bytes) != 0) return SystemError(errno);
  if (listen(socket.get(), SOMAXCONN) != 0) return SystemError(errno);
  if (getsockname(socket.get(), address.get(), &address.bytes) != 0) return SystemError(errno);
  return socket;
}

// All of `addresses` on one port, free on the first. Fails when none can be bound, or one is taken
// though the port was any.
absl::StatusOr<ListeningSockets> BindAll(std::vector<SocketAddress> addresses, int port,
                                         bool both_families) {
  ListeningSockets result;
  in_port_t network_port = htons(static_cast<uint16_t>(port));
  absl::Status error = absl::UnavailableError("the name has no address");
  for (SocketAddress& address : addresses) {
    absl::StatusOr<UniqueFd> socket = Bind(address, network_port, both_families);
    if (!socket.ok()) {
      error = socket.status();
      if (port == 0 && !result.sockets.empty() && errno == EADDRINUSE) return error;
      continue;
    }
    network_port = address.port();
    if (result.sockets.empty()) result.own.host = both_families ? kLoopback : NumericHost(address);
    result.sockets.push_back(*std::move(socket));
  }
  if (result.sockets.empty()) return error;
  result.own.port = ntohs(network_port);
  return result;
}

absl::StatusOr<ListeningSockets> ListenOnPath(const Endpoint& endpoint) {
  auto listening = ListenOnUnixSocket(endpoint.path);
  if (!listening.ok()) {
    return absl::UnavailableError(absl::StrCat("cannot listen on ", FormatEndpoint(endpoint), ": ",
                                               listening.status().message()));
  }
  ListeningSockets result{.own = endpoint};
  result.sockets.push_back(std::move(listening->socket));
  result.file.emplace(std::move(listening->file));
  return result;
}

}  // namespace

absl::StatusOr<ListeningSockets> Listen(const std::string& address) {
  const absl::StatusOr<Endpoint> parsed = ParseEndpoint(address);
  if (!parsed.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", address, "\": the address ", parsed.status().message()));
  }
  const Endpoint& endpoint = *parsed;
  if (endpoint.is_unix()) return ListenOnPath(endpoint);
  const bool any_host = endpoint.host == "0.0.0.0" || endpoint.host == "::";
  absl::Status error;
  for (const std::string& host :
       any_host ? std::vector<std::string>{"::", "0.0.0.0"} : std::vector{endpoint.host}) {
    auto addresses = Resolve(host, endpoint.port);
    for (int attempt = 0; addresses.ok() && attempt < kPortAttempts; ++attempt) {
      auto sockets = BindAll(*addresses, endpoint.port, any_host);
      if (sockets.ok()) return sockets;
      error = sockets.status();
      if (endpoint.port != 0) break;
    }
    if (!addresses.ok()) error = addresses.status();
  }
  return absl::UnavailableError(
      absl::StrCat("cannot listen on ", address, ": ", error.message(),
                   "; the port is taken, or the address is not of this machine"));
}

}  // namespace upscaled::server
