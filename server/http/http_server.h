// The operators' port: /metrics, /v2/health/live and /v2/health/ready.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace upscaled::server {

// The answers of the routes. Called on the server's thread; must be quick.
struct HttpRoutes {
  std::function<bool()> live;            // GET /v2/health/live: 200 or 503
  std::function<bool()> ready;           // GET /v2/health/ready: 200 or 503
  std::function<std::string()> metrics;  // GET /metrics: Prometheus' text format
};

// Serves from construction to destruction, on one thread that no client can hold up.
class HttpServer {
 public:
  // `address` is "host:port" with a numeric host ("127.0.0.1:8000", "[::1]:8000", "0.0.0.0:0").
  // UNAVAILABLE names the address that cannot be bound, INVALID_ARGUMENT one that is none.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(const std::string& address,
                                                           HttpRoutes routes);
  virtual ~HttpServer() = default;
  // The port that it listens on, also when it was asked for port 0.
  virtual int port() const = 0;
};

}  // namespace upscaled::server
