// Checks the host of requests to a port for this machine only.
#pragma once

#include <string>
#include <string_view>

#include "server/http/http_router.h"

namespace upscaled::server {

// Whether `host`, a field Host, is an address, a name without a dot, one below "localhost", or
// `own`; with or without a port. Another name may belong to a web page. It resolves to this
// machine, so the page reads a local browser's data (DNS rebinding).
bool IsOwnHost(std::string_view host, std::string_view own);

// Refuses requests for other hosts (421) on routes with a role. Takes a request without a host, as
// only HTTP/1.0 allows.
HttpGuard OwnHostGuard(std::string own);

}  // namespace upscaled::server
