// Cancels jobs whose webhooks are told.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "client/jobs/job_queue.h"

namespace upscaled::client {

// Cancels a job. If it has a webhook, queues the message for it as a job of its own, so that a
// worker sends it and tries again like any other. Errors as JobQueue's Cancel and Enqueue. If the
// message could not be queued, call again.
absl::Status CancelJob(JobQueue& queue, const std::string& id);

}  // namespace upscaled::client
