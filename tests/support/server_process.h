// The real server as a process of its own.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace upscaled::test {

// Killed with the object when it still runs. Its standard error is read all the time.
class ServerProcess {
 public:
  // Runs `binary` with these flags, an environment without UPSCALED_* and both ports on
  // 127.0.0.1:0 unless the flags say otherwise.
  ServerProcess(const std::string& binary, const std::vector<std::string>& flags);
  ~ServerProcess();
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  // Waits until the log says that it is ready; false when the process ends first.
  bool AwaitReady();
  // "127.0.0.1:port", after AwaitReady.
  std::string grpc_address() const { return LogValue("grpc"); }
  std::string http_address() const { return LogValue("http"); }
  std::string admin_address() const { return LogValue("admin"); }

  // Waits until standard error holds `text`; false when the process ends first.
  bool AwaitLog(const std::string& text) ABSL_LOCKS_EXCLUDED(mutex_);
  std::string log() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Leaves standard error unread from the next chunk on, until Wait: the actions of a hanging
  // reader.
  void PauseReading() ABSL_LOCKS_EXCLUDED(mutex_);

  // Its most resident memory so far (VmHWM of Linux); it must still run.
  int64_t PeakResidentBytes() const;

  pid_t pid() const { return pid_; }  // -1 when it has ended
  void Signal(int signal);
  // Limits its open descriptors from now on.
  void LimitDescriptors(uint64_t count);
  // Waits for its end: the exit code, or 128 and the number of its last signal.
  int Wait();

 private:
  std::string LogValue(const std::string& field) const;
  void ReadLog(int fd) ABSL_LOCKS_EXCLUDED(mutex_);

  pid_t pid_ = -1;  // -1 when it has ended
  int exit_code_ = 0;
  std::thread reader_;
  mutable absl::Mutex mutex_;
  std::string log_ ABSL_GUARDED_BY(mutex_);
  bool log_ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool paused_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace upscaled::test
