// Which queue an address names.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "client/jobs/job_queue.h"
#include "client/retry.h"

namespace upscaled::client {

// A folder that this user's jobs are in where nobody says otherwise: upscale/ in XDG_STATE_HOME,
// else in ~/.local/state. FAILED_PRECONDITION where neither that nor HOME is set.
absl::StatusOr<std::filesystem::path> DefaultQueueFolder();

// `address` is a folder, for SqliteQueue, or a URL as RedisQueue and NatsQueue have it where these
// are built in.
// INVALID_ARGUMENT for another URL.
absl::StatusOr<std::unique_ptr<JobQueue>> OpenQueue(const std::string& address, RetryClock& clock);

}  // namespace upscaled::client
