// Files that browsers ask for: the page at "/", the description of the service and its
// documentation.
#pragma once

#include <vector>

#include "server/http/http_router.h"
#include "server/rest/cors.h"

namespace upscaled::server {

// /openapi.json; `cors` outlives it.
std::vector<HttpRoute> DescriptionRoutes(const Cors& cors);

// "/" and what it loads, and /docs.
std::vector<HttpRoute> PageRoutes();

}  // namespace upscaled::server
