// A server of HTTP/1.1 in this process with a test's answers.
#pragma once

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/unique_fd.h"

namespace upscaled::client {

struct FakeHttpRequest {
  int number = 0;  // 1 for the first with a body
  std::string method, target, header, body;
};

// An answer with its connection closed behind it.
inline std::string FakeAnswer(const std::string& status, const std::string& fields,
                              const std::string& body) {
  return absl::StrCat("HTTP/1.1 ", status, "\r\nConnection: close\r\nContent-Length: ", body.size(),
                      "\r\n", fields, "\r\n", body);
}

// One connection for each request, each on a thread of its own. Listens on 127.0.0.1 until
// destroyed.
class FakeHttpServer {
 public:
  // All bytes of a connection; on its thread.
  using Handler = std::function<std::string(const FakeHttpRequest& request)>;

  // Without `reads_bodies` it answers a request's header, and waits until the client goes.
  explicit FakeHttpServer(Handler handler, bool reads_bodies = true)
      : handler_(std::move(handler)),
        reads_bodies_(reads_bodies),
        listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {.sin_family = AF_INET};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    if (bind(listener_.get(), generic, size) != 0 || listen(listener_.get(), 64) != 0 ||
        getsockname(listener_.get(), generic, &size) != 0) {
      std::abort();
    }
    url_ = absl::StrCat("http://127.0.0.1:", ntohs(address.sin_port));
    acceptor_ = std::thread([this] { Accept(); });
  }
  ~FakeHttpServer() {
    shutdown(listener_.get(), SHUT_RDWR);
    acceptor_.join();
    for (std::thread& thread : connections_) thread.join();
  }

  const std::string& url() const { return url_; }
  std::vector<FakeHttpRequest> requests() const {
    absl::MutexLock lock(&mutex_);
    return requests_;
  }

 private:
  void Accept() {
    while (true) {
      const int fd = accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) return;
      connections_.emplace_back([this, fd] { Serve(UniqueFd(fd)); });
    }
  }

  static bool ReadMore(int fd, std::string& text) {
    char buffer[4096];
    const ssize_t bytes = recv(fd, buffer, sizeof buffer, 0);
    if (bytes > 0) text.append(buffer, static_cast<size_t>(bytes));
    return bytes > 0;
  }

  static void Send(int fd, absl::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
  }

  void Serve(UniqueFd fd) {
    std::string text;
    while (text.find("\r\n\r\n") == std::string::npos) {
      if (!ReadMore(fd.get(), text)) return;
    }
    const size_t end = text.find("\r\n\r\n") + 4;
    FakeHttpRequest request{.header = text.substr(0, end), .body = text.substr(end)};
    const size_t method = text.find(' ');
    request.method = text.substr(0, method);
    request.target = text.substr(method + 1, text.find(' ', method + 1) - method - 1);
    if (!reads_bodies_) {
      Send(fd.get(), handler_(request));
      pollfd client{.fd = fd.get(), .events = POLLRDHUP};
      (void)poll(&client, 1, -1);
      return;
    }
    size_t length = 0;
    if (const size_t at = request.header.find("Content-Length: "); at != std::string::npos) {
      const size_t digits = at + 16;
      (void)absl::SimpleAtoi(request.header.substr(digits, request.header.find('\r', at) - digits),
                             &length);
    }
    const bool chunked = absl::StrContains(request.header, "Transfer-Encoding: chunked");
    while (chunked ? !absl::EndsWith(request.body, "0\r\n\r\n") : request.body.size() < length) {
      if (!ReadMore(fd.get(), request.body)) return;
    }
    if (request.method == "POST") request.number = ++posts_;
    {
      absl::MutexLock lock(&mutex_);
      requests_.push_back(request);
    }
    Send(fd.get(), handler_(request));
  }

  const Handler handler_;
  const bool reads_bodies_;
  UniqueFd listener_;
  std::string url_;
  std::atomic<int> posts_ = 0;
  mutable absl::Mutex mutex_;
  std::vector<FakeHttpRequest> requests_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread> connections_;  // of the acceptor until it has ended
  std::thread acceptor_;
};

}  // namespace upscaled::client
