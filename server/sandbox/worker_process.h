// An untrusted process of the server's own, with a socket between them.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/base/unique_fd.h"

namespace upscaled::server {

// Two ends of a stream with bounded waits on both sides.
struct SocketPair {
  UniqueFd own, its;
};
absl::StatusOr<SocketPair> MakeSocketPair();

// Killed when it goes. Not thread safe.
class WorkerProcess {
 public:
  // `program` gets a stream socket as its standard input and no other descriptor, no environment,
  // and a process group of its own. UNAVAILABLE says why it cannot be started.
  static absl::StatusOr<WorkerProcess> Start(const std::filesystem::path& program,
                                             std::vector<std::string> arguments = {});
  // `pid` is a child of this process, with the other end of `socket`.
  WorkerProcess(UniqueFd socket, pid_t pid) : socket_(std::move(socket)), pid_(pid) {}
  WorkerProcess(WorkerProcess&& other) noexcept
      : socket_(std::move(other.socket_)),
        pid_(std::exchange(other.pid_, -1)),
        cpu_time_(other.cpu_time_) {}
  WorkerProcess& operator=(WorkerProcess&&) = delete;
  ~WorkerProcess() { Stop(); }

  int socket() const { return socket_.get(); }
  struct End {
    bool killed = false;  // by SIGKILL: the kernel's choice when memory has run out
    std::string text;     // human-readable: "signal 11 (SEGV)", "exit code 1"
  };
  // After its end of the socket has closed, once. Kills it when it lives on.
  End AwaitEnd();

  // It computes nothing between the two.
  void Pause();
  void Resume();
  // Kills it if it lives. Returns its processor time in all.
  absl::Duration Stop();

 private:
  void Signal(int signal);
  // As waitpid(2); also records the processor time of an ended process.
  pid_t Wait(int* status, int options);

  UniqueFd socket_;
  pid_t pid_;  // -1: has ended
  absl::Duration cpu_time_;
};

}  // namespace upscaled::server
