// Debian's redis-server, nats-server and postgres for the tests of one process, on loopback.
#pragma once

#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "engine/base/unique_fd.h"
#include "tests/client/temp_folder.h"

namespace upscaled::server {

class BrokerProcess {
 public:
  // Has the program of `command` listen at a port, appended to it. It is ready when it answers
  // `question` on a new connection with `answer`. It runs as `user`, if the test is root's; 0: as
  // the test.
  BrokerProcess(std::vector<std::string> command, std::string question, std::string answer,
                uid_t user = 0)
      : command_(std::move(command)),
        question_(std::move(question)),
        answer_(std::move(answer)),
        user_(user) {
    for (int tries = 0; tries < 5 && !running(); ++tries) Start();
  }
  ~BrokerProcess() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  BrokerProcess(const BrokerProcess&) = delete;
  BrokerProcess& operator=(const BrokerProcess&) = delete;

  // Whether there is one on this machine.
  bool running() const { return pid_ > 0; }
  std::string url(const std::string& scheme, const std::string& prefix) const {
    return absl::StrCat(scheme, "://127.0.0.1:", port_, "/", prefix);
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
    const auto size = static_cast<ssize_t>(question_.size());
    if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
        send(fd.get(), question_.data(), question_.size(), MSG_NOSIGNAL) != size) {
      return false;
    }
    std::string answer(answer_.size(), '\0');
    recv(fd.get(), answer.data(), answer.size(), MSG_WAITALL);
    return answer == answer_;
  }
  // Leaves pid_ as it is when the port was taken meanwhile, or there is no such program.
  void Start() {
    port_ = FreePort();
    const std::string port = absl::StrCat(port_);
    std::vector<char*> words;
    for (std::string& word : command_) words.push_back(word.data());
    words.push_back(const_cast<char*>(port.c_str()));
    words.push_back(nullptr);
    const pid_t pid = fork();
    if (pid == 0) {
      if (geteuid() == 0 && user_ != 0 && (setgid(user_) != 0 || setuid(user_) != 0)) _exit(126);
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      execvp(words[0], words.data());
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

  std::vector<std::string> command_;
  const std::string question_, answer_;
  const uid_t user_;
  int port_ = 0;
  pid_t pid_ = -1;
};

// Without files.
class RedisServer : public BrokerProcess {
 public:
  RedisServer()
      : BrokerProcess({"redis-server", "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
                       "--daemonize", "no", "--logfile", "/dev/null", "--port"},
                      "PING\r\n", "+PONG") {}
};

// Its files are in a folder of its own. It answers a request for TLS, and refuses to run as root.
class PostgresServer : private client::TempFolder, public BrokerProcess {
 public:
  PostgresServer()
      : BrokerProcess({"postgres", "-D", MakeCluster(*this), "-h", "127.0.0.1", "-k", "", "-F",
                       "-c", "log_min_messages=panic", "-p"},
                      std::string("\0\0\0\x08\x04\xd2\x16\x2f", 8), "N", kNobody) {}

  // A new database, as its URL.
  std::string NewDatabase(const std::string& name) const {
    const std::string admin = url("postgresql", "postgres");
    const std::string at = admin.substr(0, admin.rfind('/') + 1);
    const std::string server = absl::StrCat("postgresql://upscale@", at.substr(at.find("127")));
    const int created = std::system(
        absl::StrCat("createdb --maintenance-db=", server, "postgres ", name, " >/dev/null 2>&1")
            .c_str());
    return created == 0 ? server + name : "";
  }

 private:
  static constexpr uid_t kNobody = 65534;

  // The folder is the server's user's.
  static std::string MakeCluster(const client::TempFolder& folder) {
    const std::string data = folder / "data";
    std::string command =
        absl::StrCat("initdb -D ", data, " -A trust -U upscale -E UTF8 --locale=C --no-sync",
                     " >/dev/null 2>&1");
    if (geteuid() == 0) {
      (void)chown(folder.path().c_str(), kNobody, kNobody);
      command = absl::StrCat("setpriv --reuid=", kNobody, " --regid=", kNobody, " --clear-groups ",
                             command);
    }
    (void)std::system(command.c_str());  // without it there is no server
    return data;
  }
};

// It greets when JetStream is up.
class NatsServer : private client::TempFolder, public BrokerProcess {
 public:
  // `more`: of its command line.
  explicit NatsServer(const std::vector<std::string>& more = {})
      : BrokerProcess(Command(path(), more), "", "INFO ") {}

 private:
  static std::vector<std::string> Command(const std::string& folder,
                                          const std::vector<std::string>& more) {
    std::vector<std::string> command = {"nats-server", "-a",   "127.0.0.1", "-js",
                                        "-sd",         folder, "-l",        "/dev/null"};
    command.insert(command.end(), more.begin(), more.end());
    command.push_back("-p");
    return command;
  }
};

}  // namespace upscaled::server
