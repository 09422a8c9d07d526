// Jobs as HTTP has them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/jobs/async_jobs.h"

namespace upscaled::server {

// "/v1/jobs/ID".
std::string JobPath(std::string_view id);

// As openapi.json's Job, JobList and Batch. `next`: where the list goes on; "": it has ended.
std::string JobJson(const AsyncJob& job);
std::string JobListJson(const std::vector<AsyncJob>& jobs, const std::string& next);
std::string BatchJson(const std::string& batch, const std::vector<AsyncJob>& jobs);

}  // namespace upscaled::server
