// Files for browsers: the page at "/", the description of the service and its documentation.
#pragma once

#include <vector>

#include "server/http/http_router.h"
#include "server/rest/cors.h"

namespace upscaled::server {

// /openapi.json; `cors` outlives it.
std::vector<HttpRoute> DescriptionRoutes(const Cors& cors);

// "/" and its assets, and /docs.
std::vector<HttpRoute> PageRoutes();

}  // namespace upscaled::server
