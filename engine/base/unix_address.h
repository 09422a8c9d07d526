// Addresses of Unix sockets.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>
#include <string_view>

namespace upscaled {

// The longest path: a zero byte follows it.
inline constexpr size_t kMaxSocketPathBytes = sizeof(sockaddr_un::sun_path) - 1;

// The address of the socket at `path`, cut at kMaxSocketPathBytes.
inline sockaddr_un UnixAddress(std::string_view path) {
  sockaddr_un address = {.sun_family = AF_UNIX};
  path.copy(address.sun_path, kMaxSocketPathBytes);
  return address;
}

}  // namespace upscaled
