#include "server/net/peer_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace upscaled::server {
namespace {

constexpr size_t kNetworkBytes = 8;  // the /64 of an IPv6 address

std::string Text(int family, const void* address) {
  char text[INET6_ADDRSTRLEN] = {};
  inet_ntop(family, address, text, sizeof(text));
  return text;
}

PeerAddress FromIpv4(const void* address, uint16_t port) {
  const std::string host = Text(AF_INET, address);
  return {absl::StrCat("ipv4:", host, ":", port), host};
}

}  // namespace

PeerAddress ToPeerAddress(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    const auto& ipv4 = reinterpret_cast<const sockaddr_in&>(address);
    return FromIpv4(&ipv4.sin_addr, ntohs(ipv4.sin_port));
  }
  if (address.sa_family != AF_INET6) return {};
  const auto& ipv6 = reinterpret_cast<const sockaddr_in6&>(address);
  const uint16_t port = ntohs(ipv6.sin6_port);
  if (IN6_IS_ADDR_V4MAPPED(&ipv6.sin6_addr)) {
    return FromIpv4(&ipv6.sin6_addr.s6_addr[12], port);
  }
  in6_addr network = ipv6.sin6_addr;
  std::memset(&network.s6_addr[kNetworkBytes], 0, sizeof(network) - kNetworkBytes);
  return {absl::StrCat("ipv6:[", Text(AF_INET6, &ipv6.sin6_addr), "]:", port),
          absl::StrCat(Text(AF_INET6, &network), "/64")};
}

PeerAddress PeerOf(int fd, const sockaddr& address) {
  if (address.sa_family != AF_UNIX) return ToPeerAddress(address);
  ucred user = {};
  socklen_t bytes = sizeof(user);
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &user, &bytes) != 0) return {"unix:", "unix:"};
  std::string host = absl::StrCat("unix:", user.uid);
  std::string name = absl::StrCat(host, ":", user.pid);
  return {std::move(name), user.pid == getpid() ? std::string(kOwnProcess) : std::move(host)};
}

}  // namespace upscaled::server
