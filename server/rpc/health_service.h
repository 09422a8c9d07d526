// grpc.health.v1: whether the server takes calls. (gRPC's own service starts as SERVING.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
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

// Thread safe. NOT_SERVING before SetServing, after Stop, and while no device works. Knows "" and
// "upscale.v1.UpscaleService", which are always of one mind.
class HealthService {
 public:
  // `able` says whether any device works; called with no lock held.
  HealthService(CallEnvironment& calls, std::function<bool()> able);

  grpc::Service& service() { return service_; }
  // Makes `pending_calls` of each method ready to be called on `queue`.
  void Listen(grpc::ServerCompletionQueue& queue, int pending_calls);

  // From now on, unless Stop came first.
  void SetServing() ABSL_LOCKS_EXCLUDED(mutex_);
  // Tells clients that watch when `able` has changed its mind.
  void Refresh() ABSL_LOCKS_EXCLUDED(mutex_);
  // For good.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);
  bool serving() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Clients that watch.
  size_t watch_count() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  class WatchCall;
  enum class State : uint8_t { kStarting, kServing, kStopped };  // never goes back

  void Change(State state) ABSL_LOCKS_EXCLUDED(mutex_);

  absl::Status Check(const std::string& service, grpc::health::v1::HealthCheckResponse& response);
  // SERVICE_UNKNOWN for an unknown one.
  grpc::health::v1::HealthCheckResponse::ServingStatus StatusOf(const std::string& service) const;
  void AddWatch(std::shared_ptr<WatchCall> watch) ABSL_LOCKS_EXCLUDED(mutex_);
  void RemoveWatch(const std::shared_ptr<WatchCall>& watch) ABSL_LOCKS_EXCLUDED(mutex_);

  CallEnvironment& calls_;
  const std::function<bool()> able_;
  grpc::health::v1::Health::AsyncService service_;
  UnaryMethod<grpc::health::v1::HealthCheckRequest, grpc::health::v1::HealthCheckResponse> check_;
  mutable absl::Mutex mutex_;
  State state_ ABSL_GUARDED_BY(mutex_) = State::kStarting;
  std::set<std::shared_ptr<WatchCall>> watches_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace upscaled::server
