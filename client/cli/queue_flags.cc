#include "client/cli/queue_flags.h"

#include "client/jobs/open_queue.h"
#include "engine/base/status_macros.h"

namespace upscaled::client {

void QueueFlags::AddTo(CLI::App& command) {
  command
      .add_option("--queue", queue,
                  "Folder of the queue, or redis://HOST, nats://HOST or tls://HOST (NATS) where "
                  "these are built in; default: "
                  "upscale/ in XDG_STATE_HOME or ~/.local/state")
      ->type_name("DIR|URL")
      ->envname("UPSCALE_QUEUE");
}

absl::StatusOr<std::string> QueueFlags::Address() const {
  if (!queue.empty()) return queue;
  ASSIGN_OR_RETURN(const std::filesystem::path folder, DefaultQueueFolder());
  return folder.string();
}

absl::StatusOr<std::unique_ptr<JobQueue>> QueueFlags::Open() const {
  ASSIGN_OR_RETURN(const std::string address, Address());
  return OpenQueue(address, RetryClock::Real());
}

}  // namespace upscaled::client
