// The routes of operators: health and metrics.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "server/http/http_router.h"

namespace upscaled::server {

// Called on the thread of all connections; must be quick.
struct HealthSource {
  std::function<std::string()> why_not_live;   // "": it is
  std::function<std::string()> why_not_ready;  // "": it is
  // A ready server's line for its operators; "": none. May be null.
  std::function<std::string()> note = nullptr;
};

// /v2/health/live and /v2/health/ready: 200, the latter with the note, or 503 with the reason.
std::vector<HttpRoute> HealthRoutes(HealthSource health);

// The same, and /metrics (for role `admin` if the port has a guard). `metrics` returns Prometheus'
// text format.
std::vector<HttpRoute> AdminRoutes(HealthSource health, std::function<std::string()> metrics);

}  // namespace upscaled::server
