// A command's queue of jobs.
#pragma once

#include <memory>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "server/jobs/job_queue.h"

namespace upscaled::client {

struct QueueFlags {
  std::string queue;  // "": DefaultQueueFolder

  void AddTo(CLI::App& command);
  // Where it is.
  absl::StatusOr<std::string> Address() const;
  absl::StatusOr<std::unique_ptr<server::JobQueue>> Open(server::IfAbsent if_absent) const;
};

}  // namespace upscaled::client
