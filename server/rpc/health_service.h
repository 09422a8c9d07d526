// grpc.health.v1: whether the server takes calls. (gRPC's own service starts as SERVING.)
#pragma once

#include <memory>
#include <set>
#include <string>

#include <grpcpp/grpcpp.h>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "server/rpc/call.h"
#include "server/rpc/unary_call.h"

namespace upscaled::server {

// Thread safe. Starts as NOT_SERVING. Knows "" and "upscale.v1.UpscaleService", which are always of
// one mind.
class HealthService {
 public:
  explicit HealthService(CallEnvironment& calls);

  grpc::Service& service() { return service_; }
  // Makes `pending_calls` of each method ready to be called on `queue`.
  void Listen(grpc::ServerCompletionQueue& queue, int pending_calls);

  void SetServing(bool serving) ABSL_LOCKS_EXCLUDED(mutex_);
  bool serving() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  class WatchCall;

  absl::Status Check(const std::string& service, grpc::health::v1::HealthCheckResponse& response);
  // SERVICE_UNKNOWN for an unknown one.
  grpc::health::v1::HealthCheckResponse::ServingStatus StatusOf(const std::string& service) const;
  void AddWatch(std::shared_ptr<WatchCall> watch) ABSL_LOCKS_EXCLUDED(mutex_);
  void RemoveWatch(const std::shared_ptr<WatchCall>& watch) ABSL_LOCKS_EXCLUDED(mutex_);

  CallEnvironment& calls_;
  grpc::health::v1::Health::AsyncService service_;
  UnaryMethod<grpc::health::v1::HealthCheckRequest, grpc::health::v1::HealthCheckResponse> check_;
  mutable absl::Mutex mutex_;
  bool serving_ ABSL_GUARDED_BY(mutex_) = false;
  std::set<std::shared_ptr<WatchCall>> watches_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace upscaled::server
