// Shared results of requests: running computations and stored results.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/base/thread_pool.h"
#include "server/handlers/resolve_job.h"
#include "server/results/in_flight.h"
#include "server/results/network_digests.h"
#include "server/results/result_key.h"
#include "server/results/result_store.h"

namespace upscaled::server {

struct ResultSharingOptions {
  std::string software;                          // version and build
  std::function<std::string()> tuning;           // Tuner::Choices; null: none
  std::unique_ptr<ResultStore> store = nullptr;  // null: nothing is stored
  // Size of an encoded source to receive whole first; larger ones are computed as they come.
  int64_t max_held_bytes = 0;
  int max_computations = 1;  // threads
};

// How images came to be; each counts once.
struct ResultCounts {
  std::atomic<int64_t> computed = 0, shared = 0, stored = 0, unmodified = 0;
};

// Thread safe. Its computations use the environment: they must be over, or have no waiting caller,
// when it goes.
class ResultSharing {
 public:
  explicit ResultSharing(ResultSharingOptions options);

  InFlight& in_flight() { return in_flight_; }
  ResultStore* store() { return options_.store.get(); }  // null: none
  ThreadPool& workers() { return workers_; }
  ResultCounts& counts() { return counts_; }
  const ResultCounts& counts() const { return counts_; }
  int64_t max_held_bytes() const { return options_.max_held_bytes; }

  // The common key of a tenant's equal requests; empty: of all tenants. Errors as
  // NetworkDigests::Of.
  absl::StatusOr<Digest> KeyOf(const std::string& tenant, const Digest& source,
                               const RequestOptions& options, const ResolvedJob& resolved);
  // `arithmetic`: the device's; empty: no network runs.
  std::string NameOf(const Digest& key, std::string_view arithmetic) const;
  // The result's possible names, by the possible devices.
  std::vector<std::string> NamesOf(const Digest& key, const ResolvedJob& resolved,
                                   const DeviceQuarantine& devices) const;

 private:
  const ResultSharingOptions options_;
  const std::string image_arithmetic_;
  NetworkDigests networks_;
  InFlight in_flight_;
  ResultCounts counts_;
  ThreadPool workers_;  // last: waits for the computations
};

}  // namespace upscaled::server
