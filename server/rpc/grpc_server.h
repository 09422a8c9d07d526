// The gRPC port: its services, queues and threads.
#pragma once

#include <memory>
#include <string>

#include <grpcpp/grpcpp.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/handlers/handler_environment.h"
#include "server/rpc/call.h"
#include "server/rpc/completion_queues.h"
#include "server/rpc/health_service.h"
#include "server/rpc/upscale_service.h"

namespace upscaled::server {

// PEM texts. All empty: no TLS.
struct TlsMaterial {
  std::string cert_chain;
  std::string private_key;
  std::string client_ca;  // not empty: clients must present a certificate of it
};

struct GrpcServerOptions {
  std::string listen;  // host:port, port 0 for any
  TlsMaterial tls;
  absl::Duration max_connection_age = absl::InfiniteDuration();
  int64_t output_queue_bytes = 0;
  Limits limits;
};

// Serves from Start to Shutdown.
class GrpcServer {
 public:
  // `handlers` and `calls` must outlive it. UNAVAILABLE when the address cannot be bound;
  // INVALID_ARGUMENT when the memory budget is too small for one call.
  static absl::StatusOr<std::unique_ptr<GrpcServer>> Start(const GrpcServerOptions& options,
                                                           const HandlerEnvironment& handlers,
                                                           CallEnvironment& calls);
  // Shuts down as Shutdown does.
  ~GrpcServer();

  int port() const { return port_; }
  HealthService& health() { return health_; }
  const HealthService& health() const { return health_; }

  // Closes the port, cancels what calls there still are with `reason`, and returns when all have
  // ended.
  void Shutdown(const absl::Status& reason);

 private:
  GrpcServer(const GrpcServerOptions& options, const HandlerEnvironment& handlers,
             CallEnvironment& calls);
  absl::Status Listen(const GrpcServerOptions& options);

  CallEnvironment& calls_;
  CallEnvironment health_calls_;  // neither logged nor counted
  UpscaleService upscale_;
  HealthService health_;
  std::unique_ptr<CompletionQueues> queues_;
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
};

}  // namespace upscaled::server
