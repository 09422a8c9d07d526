// Who calls over HTTP: the check that stands before the routes of a port.
#pragma once

#include "server/handlers/call_environment.h"
#include "server/http/http_router.h"
#include "server/identity/authenticator.h"

namespace upscaled::server {

// Asks callers for their keys; `calls`, which outlives it, hears of those that are refused. Null
// where `authenticator` is, which otherwise outlives it.
HttpGuard MakeHttpGuard(const Authenticator* authenticator, const CallEnvironment& calls);

}  // namespace upscaled::server
