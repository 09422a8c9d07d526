#include "server/jobs/cancel_job.h"

#include <utility>
#include <vector>

#include "engine/base/status_macros.h"
#include "server/jobs/job_message.h"
#include "server/jobs/task.h"

namespace upscaled::server {

absl::Status CancelJob(JobQueue& queue, const std::string& id) {
  RETURN_IF_ERROR(queue.Cancel(id));
  ASSIGN_OR_RETURN(const std::vector<JobInfo> jobs, queue.List({.id = id, .limit = 1}));
  if (jobs.empty()) return absl::OkStatus();  // forgotten meanwhile
  absl::StatusOr<Task> task = ParseTask(jobs.front().task);
  const bool tells = task.ok() && !task->webhook.empty() && !task->ended_job.has_value();
  if (!tells) return absl::OkStatus();
  ASSIGN_OR_RETURN(const NewJob message,
                   MakeMessage(*std::move(task), {.id = id, .state = JobState::kCancelled}));
  return queue.Enqueue({&message, 1});
}

}  // namespace upscaled::server
