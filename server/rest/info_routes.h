// GET /v1/models, /v1/models/{name} and /v1/info, answered from memory.
#pragma once

#include <vector>

#include "server/http/http_router.h"
#include "server/rest/rest_host.h"

namespace upscaled::server {

// `host` outlives them.
std::vector<HttpRoute> InfoRoutes(RestHost& host);

}  // namespace upscaled::server
