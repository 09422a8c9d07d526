// Debian's redis-server for the tests of one process, on loopback and without files.
#pragma once

#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "engine/base/unique_fd.h"

namespace upscaled::client {

class RedisServer {
 public:
  RedisServer() {
    for (int tries = 0; tries < 5 && !running(); ++tries) Start();
  }
  ~RedisServer() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  RedisServer(const RedisServer&) = delete;
  RedisServer& operator=(const RedisServer&) = delete;

  // Whether there is one on this machine.
  bool running() const { return pid_ > 0; }
  std::string url(const std::string& prefix) const {
    return absl::StrCat("redis://127.0.0.1:", port_, "/", prefix);
  }

 private:
  static sockaddr_in Loopback(int port) {
    sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(static_cast<uint16_t>(port))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
  }
  static int FreePort() {
    const UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address = Loopback(0);
    socklen_t size = sizeof address;
    bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size);
    getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size);
    return ntohs(address.sin_port);
  }
  // Something else may have taken the port meanwhile, and may never answer.
  bool Answers() const {
    const UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_in address = Loopback(port_);
    const timeval timeout = {.tv_sec = 5};
    setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
        send(fd.get(), "PING\r\n", 6, MSG_NOSIGNAL) != 6) {
      return false;
    }
    char answer[5] = {};
    return recv(fd.get(), answer, sizeof answer, MSG_WAITALL) == sizeof answer &&
           std::string(answer, sizeof answer) == "+PONG";
  }
  // Leaves pid_ as it is when the port was taken meanwhile, or there is no such program.
  void Start() {
    port_ = FreePort();
    const std::string port = absl::StrCat(port_);
    const pid_t pid = fork();
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      execlp("redis-server", "redis-server", "--port", port.c_str(), "--bind", "127.0.0.1",
             "--save", "", "--appendonly", "no", "--daemonize", "no", "--logfile", "/dev/null",
             static_cast<char*>(nullptr));
      _exit(127);
    }
    if (pid < 0) return;
    const absl::Time latest = absl::Now() + absl::Minutes(1);
    while (waitpid(pid, nullptr, WNOHANG) == 0) {
      if (Answers() && waitpid(pid, nullptr, WNOHANG) == 0) {
        pid_ = pid;
        return;
      }
      if (absl::Now() > latest) {
        kill(pid, SIGKILL);
        waitpid(pid, nullptr, 0);
        return;
      }
      absl::SleepFor(absl::Milliseconds(5));
    }
  }

  int port_ = 0;
  pid_t pid_ = -1;
};

}  // namespace upscaled::client
