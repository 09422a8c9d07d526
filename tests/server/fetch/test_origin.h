// A host of images on the loopback address, with answers of a test.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/unique_fd.h"
#include "tests/server/net/test_socket.h"

namespace upscaled::server {

// Answers one connection after the other, on a thread of its own.
class TestOrigin {
 public:
  // Gets the header of a request, and a connection to answer it on. The connection ends with the
  // call.
  using Answer = std::function<void(const std::string& header, const TestSocket& connection)>;

  explicit TestOrigin(Answer answer) : answer_(std::move(answer)) {
    listener_ = UniqueFd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address = {.sin_family = AF_INET};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), size);
    listen(listener_.get(), 16);
    getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { Serve(); });
  }
  // Answers every request with the same bytes.
  explicit TestOrigin(std::string bytes)
      : TestOrigin([bytes = std::move(bytes)](const std::string&, const TestSocket& connection) {
          connection.Write(bytes);
        }) {}
  ~TestOrigin() {
    shutdown(listener_.get(), SHUT_RDWR);  // wakes accept
    thread_.join();
  }

  int port() const { return port_; }
  // "http://HOST:PORT" and `path`.
  std::string Url(const std::string& path, const std::string& host = "127.0.0.1") const {
    return absl::StrCat("http://", host, ":", port_, path);
  }
  // The headers of all requests so far.
  std::vector<std::string> requests() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return requests_;
  }

 private:
  void Serve() {
    while (true) {
      UniqueFd fd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!fd.valid()) return;
      const TestSocket connection(std::move(fd));
      std::string header;
      while (!header.ends_with("\r\n\r\n")) {
        const std::string byte = connection.Read(1);
        if (byte.empty()) break;
        header += byte;
      }
      {
        absl::MutexLock lock(&mutex_);
        requests_.push_back(header);
      }
      answer_(header, connection);
    }
  }

  const Answer answer_;
  UniqueFd listener_;
  int port_ = 0;
  mutable absl::Mutex mutex_;
  std::vector<std::string> requests_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;  // last: it uses what is above
};

// "HTTP/1.1 200 OK" with this body.
inline std::string OkAnswer(const std::string& body) {
  return absl::StrCat("HTTP/1.1 200 OK\r\nContent-Length: ", body.size(), "\r\n\r\n", body);
}

}  // namespace upscaled::server
