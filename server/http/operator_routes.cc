#include "server/http/operator_routes.h"

#include <memory>
#include <utility>

namespace upscaled::server {
namespace {

HttpRoute HealthRoute(std::string path, std::string description,
                      std::function<std::string()> why_not,
                      std::function<std::string()> note = nullptr) {
  return {.method = "GET",
          .path = std::move(path),
          .description = std::move(description),
          .handler =
              [why_not = std::move(why_not), note = std::move(note)](
                  const HttpRequest&, std::unique_ptr<HttpResponseWriter> writer) {
                if (const std::string reason = why_not(); !reason.empty()) {
                  return writer->Send(TextResponse(503, reason + "\n"));
                }
                const std::string line = note == nullptr ? "" : note();
                writer->Send(TextResponse(200, line.empty() ? "ok\n" : "ok\n" + line + "\n"));
              },
          .role = std::nullopt};
}

}  // namespace

std::vector<HttpRoute> HealthRoutes(HealthSource health) {
  return {
      HealthRoute("/v2/health/live", "200, 503 once no device has worked for five minutes",
                  std::move(health.why_not_live)),
      HealthRoute("/v2/health/ready",
                  "200 while it takes requests, 503 before warm-up and while draining",
                  std::move(health.why_not_ready), std::move(health.note)),
  };
}

std::vector<HttpRoute> AdminRoutes(HealthSource health, std::function<std::string()> metrics) {
  std::vector<HttpRoute> routes = HealthRoutes(std::move(health));
  routes.push_back({.method = "GET",
                    .path = "/metrics",
                    .description = "Prometheus metrics",
                    .handler =
                        [metrics = std::move(metrics)](const HttpRequest&,
                                                       std::unique_ptr<HttpResponseWriter> writer) {
                          HttpResponse response = TextResponse(200, metrics());
                          response.fields.front().value =
                              "text/plain; version=0.0.4; charset=utf-8";
                          writer->Send(std::move(response));
                        },
                    .role = Role::kAdmin,
                    .name = "GetMetrics"});
  return routes;
}

}  // namespace upscaled::server
