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
  // Short: what is saved up comes at once, beside tenants who stay within theirs.
  static constexpr absl::Duration kBurst = absl::Seconds(1);

  // Whether a call more may begin. `delay` is until a running one may end, if the others are like
  // the last one that ended; zero: not known, because no call has work queued.
  absl::Status CheckCall(const TenantLimits& limits, absl::Time now, absl::Duration delay);
  void BeginCall(const TenantLimits& limits, absl::Time now);
  // The end of a call that began at `begun`.
  void EndCall(const TenantLimits& limits, absl::Time begun, absl::Time now);

  // Whether a request of `cost` may be queued. A single one always may, as far as the queue is
  // concerned.
  struct Queue {
    int64_t cost = 0;  // of the tenant's that is queued
    // Until so much of that will have been computed.
    std::function<absl::Duration(int64_t cost)> time_for;
  };
  absl::Status CheckCost(const TenantLimits& limits, int64_t cost, const Queue& queue,
                         absl::Time now);
  // Spends what CheckCost has allowed; negative: gives back what will not be computed.
  void Spend(const TenantLimits& limits, int64_t cost, absl::Time now);

  // Tells what happened since the last call: `busy` whether the tenant had work queued in that
  // time, `cost` how much of it was computed at its end.
  void RecordComputed(const TenantLimits& limits, bool busy, int64_t cost, absl::Time now);
  // Until so much of the tenant's will have been computed if it goes on as it has gone lately,
  // whatever others had computed beside it; zero: not known.
  absl::Duration TimeFor(const TenantLimits& limits, int64_t cost) const;

  // Notes bytes that have come. Refuses those that came while there was a debt.
  absl::Status Receive(const TenantLimits& limits, int64_t bytes, absl::Time now);

 private:
  struct Tenant {
    std::multiset<absl::Time> calls;           // under way, by their begin
    std::optional<absl::Duration> usual_call;  // as the last one took
    std::optional<TokenBucket> pixels, bytes;
    // Not much longer than twenty tiles take, as others come and go, and shorter after a pause.
    ThroughputMeter computed{absl::Seconds(2)};
  };

  // At the rate that holds now; null: none does.
  static TokenBucket* BucketOf(std::optional<TokenBucket>& bucket, int64_t per_second,
                               absl::Time now);
  absl::Status CheckBytes(const TenantLimits& limits, absl::Time now);

  std::map<std::string, Tenant> tenants_;  // that have had limits
};

// The error for calls of a tenant whose longest life has passed: DEADLINE_EXCEEDED (kDeadline).
absl::Status CallTimeExceeded(const TenantLimits& limits);

}  // namespace upscaled::server
