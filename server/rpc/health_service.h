// grpc.health.v1: whether the server takes calls. (gRPC's own service starts as SERVING.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "grpc/health/v1/health.pb.h"
#include "server/admission/address_shares.h"
#include "server/rpc/call.h"
#include "server/rpc/method.h"

namespace upscaled::server {

// Thread safe. NOT_SERVING before SetServing, after Stop, while no device works, and while the
// server is not ready. Knows "" and "upscale.v1.UpscaleService", always of one mind.
class HealthService {
 public:
  // `able` says whether any device works; called with no lock held.
  explicit HealthService(std::function<bool()> able) : able_(std::move(able)) {}

  // Check and Watch. They are neither logged nor counted.
  void AddMethods(MethodTable& methods);

  // From now on, unless Stop came first.
  void SetServing() ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether the server finds itself able to take calls (see server/lifecycle/readiness.h); at first
  // it does.
  void SetReady(bool ready) ABSL_LOCKS_EXCLUDED(mutex_);
  // Tells watching clients when `able` has changed its mind.
  void Refresh() ABSL_LOCKS_EXCLUDED(mutex_);
  // For good.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);
  bool serving() const ABSL_LOCKS_EXCLUDED(mutex_);
  // True after Stop.
  bool stopped() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Watching clients.
  size_t watch_count() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Watches at a time, in all and of one address. Each holds a call and no thread.
  static constexpr size_t kMaxWatchers = 1000;
  static constexpr int64_t kMaxWatchersOfAddress = 750;

 private:
  class Watcher;
  enum class State : uint8_t { kStarting, kServing, kStopped };  // never goes back

  void Change(State state) ABSL_LOCKS_EXCLUDED(mutex_);

  absl::Status Check(const std::string& service, grpc::health::v1::HealthCheckResponse& response);
  // SERVICE_UNKNOWN for an unknown one.
  grpc::health::v1::HealthCheckResponse::ServingStatus StatusOf(const std::string& service) const;
  void Watch(const std::shared_ptr<Call>& call, const std::string& service)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void RemoveWatcher(const std::shared_ptr<Watcher>& watcher) ABSL_LOCKS_EXCLUDED(mutex_);

  const std::function<bool()> able_;
  mutable absl::Mutex mutex_;
  State state_ ABSL_GUARDED_BY(mutex_) = State::kStarting;
  bool ready_ ABSL_GUARDED_BY(mutex_) = true;
  std::set<std::shared_ptr<Watcher>> watchers_ ABSL_GUARDED_BY(mutex_);
  AddressShares shares_ ABSL_GUARDED_BY(mutex_){kMaxWatchersOfAddress};
};

}  // namespace upscaled::server
