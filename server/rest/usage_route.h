// GET /v1/usage: tenants' usage, day by day, for operators.
#pragma once

#include "server/calls/call_environment.h"
#include "server/handlers/handler_environment.h"
#include "server/http/http_router.h"

namespace upscaled::server {

// A route of the operators' port. Both outlive it.
HttpRoute UsageRoute(const HandlerEnvironment& handlers, const CallEnvironment& calls);

}  // namespace upscaled::server
