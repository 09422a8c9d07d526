// The usage of tenants, for operators.
#pragma once

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/handlers/handler_environment.h"
#include "upscale/v1/admin.pb.h"

namespace upscaled::server {

// `now` is the system's time, and gives today's date. Errors as the contract has them.
absl::Status GetUsage(const HandlerEnvironment& environment, absl::Time now,
                      const upscale::v1::GetUsageRequest& request,
                      upscale::v1::GetUsageResponse& response);

}  // namespace upscaled::server
