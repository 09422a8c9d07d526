// Takes jobs back, and tells their webhooks.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "server/jobs/job_queue.h"

namespace upscaled::server {

// Cancels a job. If it has a webhook, queues the message for it as a job of its own: a worker sends
// it and tries again like any other. Errors as JobQueue's Cancel and Enqueue. If the message could
// not be queued, call again.
absl::Status CancelJob(JobQueue& queue, const std::string& id);

}  // namespace upscaled::server
