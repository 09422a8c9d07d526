// Blocking sockets for tests of ports.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "engine/base/unique_fd.h"

namespace upscaled::server {

// Reads and writes give up after some seconds.
class TestSocket {
 public:
  explicit TestSocket(UniqueFd fd) : fd_(std::move(fd)) {
    fcntl(fd_.get(), F_SETFL, fcntl(fd_.get(), F_GETFL) & ~O_NONBLOCK);
    const timeval patience = {.tv_sec = 20};
    setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    setsockopt(fd_.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
  }

  // To 127.0.0.1.
  static TestSocket Connect(int port) {
    UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(static_cast<uint16_t>(port))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
      fd = UniqueFd();
    }
    return TestSocket(std::move(fd));
  }

  bool Write(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t n = send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(n));
    }
    return true;
  }

  // As many bytes, or those before the end.
  std::string Read(size_t bytes) const {
    std::string text(bytes, '\0');
    size_t done = 0;
    while (done < bytes) {
      const ssize_t n = recv(fd_.get(), text.data() + done, bytes - done, 0);
      if (n <= 0) break;
      done += static_cast<size_t>(n);
    }
    text.resize(done);
    return text;
  }

  // Whether the other side ends the connection, before it sends anything more.
  bool Ends() const {
    char byte = 0;
    const ssize_t n = recv(fd_.get(), &byte, 1, 0);
    return n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK);
  }

  void EndWrites() const { shutdown(fd_.get(), SHUT_WR); }
  int fd() const { return fd_.get(); }

 private:
  UniqueFd fd_;
};

}  // namespace upscaled::server
