// Who calls over HTTP: the check that stands before the routes of a port.
#pragma once

#include <functional>

#include "server/base/request_record.h"
#include "server/http/http_router.h"
#include "server/identity/authenticator.h"

namespace upscaled::server {

// Asks callers for their keys; `on_finished` hears of the calls that are refused. Null where
// `authenticator` is, which otherwise outlives it.
HttpGuard MakeHttpGuard(const Authenticator* authenticator,
                        std::function<void(const RequestRecord&)> on_finished);

}  // namespace upscaled::server
