// Workers with a start in a moment: forks of a process with all libraries loaded and no image seen.
#pragma once

#include <filesystem>
#include <utility>

#include "absl/status/statusor.h"
#include "server/sandbox/worker_process.h"

namespace upscaled::server {

// The server's end. Ends when it goes; its forks live on. A fork takes 0.6 MiB of its own
// (measured). Not thread safe.
class WorkerZygote {
 public:
  // `program` calls ForkOnRequest first of all. UNAVAILABLE says why it cannot be started.
  static absl::StatusOr<WorkerZygote> Start(const std::filesystem::path& program);

  // UNAVAILABLE: there is no process to be had. ABORTED: it has gone, or does not answer.
  absl::StatusOr<WorkerProcess> Fork();

 private:
  explicit WorkerZygote(WorkerProcess process) : process_(std::move(process)) {}

  WorkerProcess process_;
};

// The other end, in a process of one thread: for each socket from its standard input forks a child
// of the server, as WorkerProcess describes it, and returns true there. Returns false when the
// server has gone.
bool ForkOnRequest();

}  // namespace upscaled::server
