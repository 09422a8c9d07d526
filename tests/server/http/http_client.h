// A client of 127.0.0.1, or of a Unix socket, with bytes of its choice.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <string>
#include <string_view>

#include "engine/base/unique_fd.h"
#include "engine/base/unix_address.h"
#include "gtest/gtest.h"

namespace upscaled::server {

class Client {
 public:
  explicit Client(int port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) { Connect(port); }
  explicit Client(const std::string& path) : fd_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const sockaddr_un address = UnixAddress(path);
    EXPECT_EQ(connect(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  }

  int fd() const { return fd_.get(); }

  void Send(std::string_view text) {
    EXPECT_EQ(send(fd_.get(), text.data(), text.size(), MSG_NOSIGNAL), std::ssize(text));
  }
  // false when the server has closed the connection.
  bool TrySend(std::string_view text) {
    return send(fd_.get(), text.data(), text.size(), MSG_NOSIGNAL) == std::ssize(text);
  }
  void EndOutput() { shutdown(fd_.get(), SHUT_WR); }

  // Until the server closes.
  std::string ReadAll() {
    std::string text;
    while (ReadSome(text)) {
    }
    return text;
  }
  // Whether the server's end, behind all bytes before it, is a reset.
  bool EndsByReset() {
    errno = 0;
    ReadAll();
    return errno == ECONNRESET;
  }
  // Up to and with the first `end`.
  std::string ReadUntil(std::string_view end) {
    std::string text;
    char byte;
    while (!text.ends_with(end) && recv(fd_.get(), &byte, 1, 0) == 1) text.push_back(byte);
    return text;
  }

 private:
  void Connect(int port) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  }
  bool ReadSome(std::string& text) {
    char buffer[4096];
    const ssize_t count = recv(fd_.get(), buffer, sizeof(buffer), 0);
    if (count > 0) text.append(buffer, static_cast<size_t>(count));
    return count > 0;
  }

  UniqueFd fd_;
};

// The whole answer to one request; the server closes.
inline std::string Fetch(int port, std::string_view method, std::string_view target) {
  Client client(port);
  client.TrySend(std::string(method) + " " + std::string(target) +
                 " HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
  return client.ReadAll();
}

// The whole answer to the sent bytes. The server must then close.
inline std::string Exchange(int port, std::string_view text) {
  Client client(port);
  client.TrySend(text);
  return client.ReadAll();
}

}  // namespace upscaled::server
