// gRPC: its services, queues and threads. It gets its connections from server/net.
#pragma once

#include <memory>

#include <grpcpp/grpcpp.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/handlers/handler_environment.h"
#include "server/rpc/call.h"
#include "server/rpc/completion_queues.h"
#include "server/rpc/connection_intake.h"
#include "server/rpc/health_service.h"
#include "server/rpc/method.h"
#include "server/rpc/pending_calls.h"
#include "server/spool/body_budget.h"

namespace upscaled::server {

struct GrpcServerOptions {
  absl::Duration max_connection_age = absl::InfiniteDuration();
  absl::Duration idle_timeout = absl::InfiniteDuration();  // of connections without calls
  int64_t transport_bytes = 0;  // of messages on their way, for all connections
  int64_t output_queue_bytes = 0;
  Limits limits;
};

// Serves from Start to Shutdown. Its health may be asked for and changed at any time.
class GrpcServer {
 public:
  // `handlers` and `calls` must outlive it.
  GrpcServer(const GrpcServerOptions& options, const HandlerEnvironment& handlers,
             CallEnvironment& calls);
  // Shuts down as Shutdown does.
  ~GrpcServer();

  // `budget` is for bodies of slow clients. INVALID_ARGUMENT when the memory budget is too small
  // for one call.
  absl::Status Start(std::shared_ptr<BodyBudget> budget);
  // For its connections, from Start to Shutdown.
  ConnectionIntake& intake() { return intake_; }

  HealthService& health() { return health_; }
  const HealthService& health() const { return health_; }

  // Takes no more connections, cancels the remaining calls with `reason`, and returns when all have
  // ended.
  void Shutdown(const absl::Status& reason);

 private:
  absl::Status CheckMemoryBudget() const;

  const GrpcServerOptions options_;
  CallEnvironment& calls_;
  HealthService health_;
  MethodTable methods_;
  grpc::AsyncGenericService service_;
  PendingCalls pending_;
  CallHost host_;
  std::unique_ptr<CompletionQueues> queues_;
  std::unique_ptr<grpc::Server> server_;
  ConnectionIntake intake_;
};

}  // namespace upscaled::server
