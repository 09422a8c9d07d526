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
  // Makes the folder of a queue that is not there yet.
  absl::StatusOr<std::unique_ptr<server::JobQueue>> Open() const;
  // NOT_FOUND for such a folder.
  absl::StatusOr<std::unique_ptr<server::JobQueue>> OpenExisting() const;
};

}  // namespace upscaled::client
