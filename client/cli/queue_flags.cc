#include "client/cli/queue_flags.h"

#include "engine/base/status_macros.h"
#include "server/jobs/job_queue.h"

namespace upscaled::client {

void QueueFlags::AddTo(CLI::App& command) {
  command
      .add_option("--queue", queue,
                  "Folder of the queue, or redis://HOST, nats://HOST, tls://HOST (NATS) or "
                  "postgresql://HOST/DATABASE where these are built in; default: "
                  "upscale/ in XDG_STATE_HOME or ~/.local/state")
      ->type_name("DIR|URL")
      ->envname("UPSCALE_QUEUE");
}

absl::StatusOr<std::string> QueueFlags::Address() const {
  if (!queue.empty()) return queue;
  ASSIGN_OR_RETURN(const std::filesystem::path folder, server::DefaultQueueFolder());
  return folder.string();
}

absl::StatusOr<std::unique_ptr<server::JobQueue>> QueueFlags::Open(
    server::IfAbsent if_absent) const {
  ASSIGN_OR_RETURN(const std::string address, Address());
  return server::OpenQueue(address, {}, if_absent);
}

}  // namespace upscaled::client
