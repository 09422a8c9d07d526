// Jobs as HTTP has them.
#pragma once

#include <string>
#include <string_view>

#include "server/jobs/async_jobs.h"

namespace upscaled::server {

// "/v1/jobs/ID".
std::string JobPath(std::string_view id);

// As openapi.json's Job.
std::string JobJson(const AsyncJob& job);

}  // namespace upscaled::server
