#include "server/jobs/cancel_job.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/random_uuid.h"
#include "engine/base/status_macros.h"
#include "server/jobs/task.h"

namespace upscaled::server {

absl::Status CancelJob(JobQueue& queue, const std::string& id) {
  RETURN_IF_ERROR(queue.Cancel(id));
  ASSIGN_OR_RETURN(const std::vector<JobInfo> jobs, queue.List({.id = id, .limit = 1}));
  if (jobs.empty()) return absl::OkStatus();  // forgotten meanwhile
  absl::StatusOr<Task> task = ParseTask(jobs.front().task);
  const bool tells = task.ok() && !task->webhook.empty() && task->cancelled_job.empty();
  if (!tells) return absl::OkStatus();
  task->cancelled_job = id;
  // The same id for the same job, so that a message that waits is not queued twice.
  std::string message_id = absl::StrCat("cancelled-", id);
  if (!CheckJobId(message_id).ok()) message_id = RandomUuid();  // too long
  ASSIGN_OR_RETURN(std::string text, TaskToJson(*task));
  const NewJob message{.id = std::move(message_id), .task = std::move(text)};
  return queue.Enqueue({&message, 1});
}

}  // namespace upscaled::server
