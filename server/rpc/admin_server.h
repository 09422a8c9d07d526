// The services for operators: upscale.v1.AdminService and reflection, on gRPC's synchronous server
// with a few threads, apart from the clients' port.
#pragma once

#include <memory>

#include <grpcpp/grpcpp.h>

#include "absl/status/statusor.h"
#include "server/calls/call_environment.h"
#include "server/handlers/handler_environment.h"
#include "server/rpc/connection_intake.h"

namespace upscaled::server {

// Serves from Start to Shutdown.
class AdminServer {
 public:
  // All must outlive it; of `calls` it uses `peer` and `on_finished`. Callers must have the role
  // `admin`, unless `authenticator` is null.
  static absl::StatusOr<std::unique_ptr<AdminServer>> Start(const HandlerEnvironment& handlers,
                                                            const CallEnvironment& calls,
                                                            const Authenticator* authenticator);
  // Shuts down as Shutdown does.
  ~AdminServer();

  // For its connections, from Start to Shutdown.
  ConnectionIntake& intake() { return intake_; }

  // Takes no more connections; waits for a reload, and cancels the rest after a moment.
  void Shutdown();

 private:
  struct Services;
  AdminServer(const HandlerEnvironment& handlers, const CallEnvironment& calls,
              const Authenticator* authenticator);

  const std::unique_ptr<Services> services_;
  std::unique_ptr<grpc::Server> server_;
  ConnectionIntake intake_;
};

}  // namespace upscaled::server
