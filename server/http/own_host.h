// The check that a request to a port of this machine only is meant for this machine.
#pragma once

#include <string>
#include <string_view>

#include "server/http/http_router.h"

namespace upscaled::server {

// Whether `host`, a field Host, is an address, a name without a dot, one below "localhost", or
// `own`; with or without a port. Another name may be that of a web page which has it resolve to
// this machine, in order to read what a browser here may read (DNS rebinding).
bool IsOwnHost(std::string_view host, std::string_view own);

// Refuses requests for other hosts (421) on routes that ask for a role. One that names none, which
// only HTTP/1.0 allows, is taken.
HttpGuard OwnHostGuard(std::string own);

}  // namespace upscaled::server
