// The process's use of the machine's resources.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/time/time.h"

namespace upscaled::server {

// 0 where it cannot be told, and for a limit: none.
struct ProcessUsage {
  int64_t open_fds = 0;
  int64_t max_fds = 0;  // RLIMIT_NOFILE
  int64_t threads = 0;
  int64_t max_threads = 0;  // of the control groups, or RLIMIT_NPROC
  // Threads in the control group with a limit of them, also of decoders and of other processes
  // there.
  int64_t group_tasks = 0;
  int64_t max_group_tasks = 0;
  int64_t resident_bytes = 0;
  int64_t max_memory_bytes = 0;  // of the control groups
  int64_t virtual_bytes = 0;
  double cpu_seconds = 0;  // of all threads, system time included
};

// Reads /proc. Opens its files once, to work without a free descriptor, and reads the control
// groups' limits then. Thread safe; reads of several threads take turns.
class ProcessProbe {
 public:
  ProcessProbe();
  ~ProcessProbe();
  ProcessProbe(const ProcessProbe&) = delete;
  ProcessProbe& operator=(const ProcessProbe&) = delete;

  ProcessUsage Read() const;
  // By the system's clock as it is set now.
  absl::Time start_time() const;
  // Descriptors of connected sockets.
  int64_t CountConnections() const;

 private:
  struct Files;
  const std::unique_ptr<Files> files_;
};

}  // namespace upscaled::server
