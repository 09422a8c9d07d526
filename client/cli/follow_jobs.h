// Following jobs to their end.
#pragma once

#include <stop_token>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/retry.h"
#include "server/jobs/job_queue.h"

namespace upscaled::client {

inline constexpr absl::Duration kFollowInterval = absl::Seconds(1);

// Passes on each of these jobs as it is, and after each change, until all have ended. Returns
// whether all are done. Asks every kFollowInterval, also an unreachable queue. NOT_FOUND for no
// such job; CANCELLED when `stop` was requested. Other errors as JobQueue's.
absl::StatusOr<bool> FollowJobs(server::JobQueue& queue, std::vector<std::string> ids,
                                absl::FunctionRef<void(const server::JobInfo&)> on_change,
                                RetryClock& clock, std::stop_token stop);

}  // namespace upscaled::client
