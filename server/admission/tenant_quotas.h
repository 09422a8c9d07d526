// Tracks how much of their limits tenants use. The limits come with each call, so a reloaded key
// file applies from the next call on. A tenant keeps the resources it already holds.
//
// Rates are counted as debt. A tenant without debt is admitted, however large its request. The
// next request waits until the debt is paid. A large image is therefore late, but never
// impossible. A refusal gives its retry delay to the millisecond. Unused rate is saved for at
// most kBurst.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/base/payer.h"
#include "server/base/throughput.h"
#include "server/net/token_bucket.h"

namespace upscaled::server {

// Not thread safe. Refusals are RESOURCE_EXHAUSTED (kOverloaded) with a retry delay; message and
// metadata {limit, tenant, maximum} name the limit. Costs are multiply-adds.
class TenantQuotas {
 public:
  // Short: a tenant's saved work comes at once, and other tenants wait meanwhile.
  static constexpr absl::Duration kBurst = absl::Seconds(1);

  // Whether one more call may begin. `delay`: until a running one may end, if all are like the last
  // one; zero: not known, because no call has work queued.
  absl::Status CheckCall(const TenantLimits& limits, absl::Time now, absl::Duration delay);
  void BeginCall(const TenantLimits& limits, absl::Time now);
  // Ends a call. `begun`: the time of its BeginCall.
  void EndCall(const TenantLimits& limits, absl::Time begun, absl::Time now);

  // Whether a request of `cost` may be queued. An empty queue takes any request.
  struct Queue {
    int64_t cost = 0;  // the tenant's queued cost
    // The time to compute `cost` of it.
    std::function<absl::Duration(int64_t cost)> time_for;
  };
  absl::Status CheckCost(const TenantLimits& limits, int64_t cost, const Queue& queue,
                         absl::Time now);
  // Spends the cost after CheckCost; negative: gives back the part without a computation.
  void Spend(const TenantLimits& limits, int64_t cost, absl::Time now);

  // Records the time since the last RecordComputed. `busy`: the tenant had work queued. `cost`: the
  // tenant's computed work.
  void RecordComputed(const TenantLimits& limits, bool busy, int64_t cost, absl::Time now);
  // The time to compute `cost` of the tenant's at its recent speed; zero: not known.
  absl::Duration TimeFor(const TenantLimits& limits, int64_t cost) const;

  // Counts received bytes. Refuses bytes during a debt.
  absl::Status Receive(const TenantLimits& limits, int64_t bytes, absl::Time now);

 private:
  struct Tenant {
    std::multiset<absl::Time> calls;           // running ones, by their begin
    std::optional<absl::Duration> usual_call;  // as the last one took
    std::optional<TokenBucket> pixels, bytes;
    // About the time of twenty tiles, since others come and go, and less after a pause.
    ThroughputMeter computed{absl::Seconds(2)};
  };

  // Sets the present rate; null: no limit.
  static TokenBucket* BucketOf(std::optional<TokenBucket>& bucket, int64_t per_second,
                               absl::Time now);
  absl::Status CheckBytes(const TenantLimits& limits, absl::Time now);

  std::map<std::string, Tenant> tenants_;  // with limits, now or earlier
};

// The error of a call beyond its tenant's longest time: DEADLINE_EXCEEDED (kDeadline).
absl::Status CallTimeExceeded(const TenantLimits& limits);

}  // namespace upscaled::server
