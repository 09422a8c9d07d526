// Identifies callers over HTTP, before the routes of a port.
#pragma once

#include "server/calls/call_environment.h"
#include "server/http/http_router.h"
#include "server/identity/authenticator.h"
#include "server/identity/url_keys.h"

namespace upscaled::server {

// Asks callers for their keys, or for a signature where the route takes signed URLs; `calls` gets a
// record of each refusal. A null `authenticator` lets everybody call, null `url_keys` take no
// signed URLs; with neither the guard is null, too. All arguments outlive it.
HttpGuard MakeHttpGuard(const Authenticator* authenticator, const UrlKeys* url_keys,
                        const CallEnvironment& calls);

}  // namespace upscaled::server
