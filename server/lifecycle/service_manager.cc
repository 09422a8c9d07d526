#include "server/lifecycle/service_manager.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>

namespace upscaled::server {

void NotifyServiceManager(std::string_view state) {
  const char* const variable = std::getenv("NOTIFY_SOCKET");
  if (variable == nullptr) return;
  const std::string_view path = variable;
  sockaddr_un address = {};
  if ((!path.starts_with('/') && !path.starts_with('@')) || path.size() >= sizeof address.sun_path)
    return;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  if (path.starts_with('@')) address.sun_path[0] = '\0';  // the abstract name space
  const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return;
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
  (void)sendto(fd, state.data(), state.size(), MSG_NOSIGNAL | MSG_DONTWAIT,
               reinterpret_cast<const sockaddr*>(&address), size);
  close(fd);
}

}  // namespace upscaled::server
