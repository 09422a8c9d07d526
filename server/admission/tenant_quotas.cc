#include "server/admission/tenant_quotas.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/base/status_macros.h"
#include "server/admission/limits.h"
#include "server/base/error.h"

namespace upscaled::server {
namespace {

constexpr char kCalls[] = "tenant.calls", kQueuePixels[] = "tenant.queue_pixels",
               kPixelsPerSecond[] = "tenant.pixels_per_second",
               kBytesPerSecond[] = "tenant.bytes_per_second",
               kCallSeconds[] = "tenant.call_seconds";

// The time until the speed of a tenant's work is known: some tiles, if they are quick.
constexpr absl::Duration kMeasured = absl::Milliseconds(200);
// The life of an earlier speed once the tenant was idle, as others may have come or gone since.
constexpr absl::Duration kRemembered = absl::Milliseconds(250);

ErrorMetadata Metadata(const TenantLimits& limits, absl::string_view limit,
                       absl::string_view maximum) {
  return {
      {"limit", std::string(limit)}, {"tenant", limits.tenant}, {"maximum", std::string(maximum)}};
}

// `sentence` goes on after the tenant's name. A delay of no whole milliseconds is rounded up: a
// caller with this wait is let in.
absl::Status Refusal(const TenantLimits& limits, absl::string_view limit, int64_t maximum,
                     absl::string_view sentence, absl::Duration delay) {
  return MakeOverloaded(absl::StrCat("the tenant \"", limits.tenant, "\" ", sentence, " (", limit,
                                     ": ", maximum, ")"),
                        absl::Ceil(delay, absl::Milliseconds(1)),
                        Metadata(limits, limit, absl::StrCat(maximum)));
}

double Pixels(int64_t cost) { return static_cast<double>(cost) / kQueuePixelCost; }

}  // namespace

absl::Status TenantQuotas::CheckCall(const TenantLimits& limits, absl::Time now,
                                     absl::Duration delay) {
  const Tenant& tenant = tenants_[limits.tenant];
  if (std::ssize(tenant.calls) < limits.max_calls) return CheckBytes(limits, now);
  if (delay == absl::ZeroDuration()) {
    delay = tenant.usual_call.has_value() ? *tenant.calls.begin() + *tenant.usual_call - now
                                          : kUnknownRetryDelay;
  }
  return Refusal(
      limits, kCalls, limits.max_calls,
      absl::StrCat("has ", tenant.calls.size(), " calls running, the most that it may have"),
      std::max(delay, kMinRetryDelay));
}

void TenantQuotas::BeginCall(const TenantLimits& limits, absl::Time now) {
  tenants_[limits.tenant].calls.insert(now);
}

void TenantQuotas::EndCall(const TenantLimits& limits, absl::Time begun, absl::Time now) {
  Tenant& tenant = tenants_[limits.tenant];
  tenant.calls.erase(tenant.calls.find(begun));
  tenant.usual_call = now - begun;
}

absl::Status TenantQuotas::CheckCost(const TenantLimits& limits, int64_t cost, const Queue& queue,
                                     absl::Time now) {
  if (limits.max_queue_pixels != TenantLimits::kNone && queue.cost > 0) {
    const int64_t max_cost = limits.max_queue_pixels * kQueuePixelCost;
    const int64_t excess = queue.cost + cost - max_cost;
    if (excess > 0) {
      return Refusal(
          limits, kQueuePixels, limits.max_queue_pixels,
          absl::StrCat("has ", QueuePixels(queue.cost),
                       " pixels' work queued, and the request would add ", QueuePixels(cost)),
          queue.time_for(std::min(excess, queue.cost)));
    }
  }
  TokenBucket* const pixels =
      BucketOf(tenants_[limits.tenant].pixels, limits.pixels_per_second, now);
  if (pixels == nullptr) return absl::OkStatus();
  const absl::Duration debt = pixels->TimeInDebt(now);
  if (debt == absl::ZeroDuration()) return absl::OkStatus();
  return Refusal(limits, kPixelsPerSecond, limits.pixels_per_second,
                 absl::StrCat("has had more pixels' work than it may have a second, for ",
                              absl::FormatDuration(absl::Ceil(debt, absl::Milliseconds(1))),
                              " to come, and the request would add ", QueuePixels(cost)),
                 debt);
}

void TenantQuotas::Spend(const TenantLimits& limits, int64_t cost, absl::Time now) {
  TokenBucket* const pixels =
      BucketOf(tenants_[limits.tenant].pixels, limits.pixels_per_second, now);
  if (pixels == nullptr) return;
  if (cost < 0) return pixels->Earn(Pixels(-cost));
  pixels->Spend(Pixels(cost), now);
}

void TenantQuotas::RecordComputed(const TenantLimits& limits, bool busy, int64_t cost,
                                  absl::Time now) {
  ThroughputMeter& computed = tenants_[limits.tenant].computed;
  if (!busy) computed.KeepAtMost(kRemembered);
  computed.Record(now, busy, cost);
}

absl::Duration TenantQuotas::TimeFor(const TenantLimits& limits, int64_t cost) const {
  const auto tenant = tenants_.find(limits.tenant);
  if (tenant == tenants_.end()) return absl::ZeroDuration();
  const ThroughputMeter& computed = tenant->second.computed;
  return computed.busy() < kMeasured ? absl::ZeroDuration() : computed.TimeFor(cost);
}

absl::Status TenantQuotas::Receive(const TenantLimits& limits, int64_t bytes, absl::Time now) {
  TokenBucket* const bucket = BucketOf(tenants_[limits.tenant].bytes, limits.bytes_per_second, now);
  if (bucket == nullptr) return absl::OkStatus();
  const absl::Status allowed = CheckBytes(limits, now);
  bucket->Spend(static_cast<double>(bytes), now);
  return allowed;
}

absl::Status TenantQuotas::CheckBytes(const TenantLimits& limits, absl::Time now) {
  TokenBucket* const bytes = BucketOf(tenants_[limits.tenant].bytes, limits.bytes_per_second, now);
  if (bytes == nullptr) return absl::OkStatus();
  const absl::Duration debt = bytes->TimeInDebt(now);
  if (debt == absl::ZeroDuration()) return absl::OkStatus();
  return Refusal(
      limits, kBytesPerSecond, limits.bytes_per_second,
      absl::StrCat("has sent more bytes than it may a second, for ",
                   absl::FormatDuration(absl::Ceil(debt, absl::Milliseconds(1))), " to come"),
      debt);
}

TokenBucket* TenantQuotas::BucketOf(std::optional<TokenBucket>& bucket, int64_t per_second,
                                    absl::Time now) {
  // A call before the limit does not touch the others' bucket.
  if (per_second == TenantLimits::kNone) return nullptr;
  const auto rate = static_cast<double>(per_second);
  const Rate now_allowed{.per_second = rate, .burst = rate * absl::ToDoubleSeconds(kBurst)};
  if (bucket.has_value()) {
    bucket->SetRate(now_allowed, now);
  } else {
    bucket.emplace(now_allowed, now);
  }
  return &*bucket;
}

absl::Status CallTimeExceeded(const TenantLimits& limits) {
  const std::string maximum = absl::FormatDuration(limits.max_call_time);
  return MakeError(absl::StatusCode::kDeadlineExceeded, ErrorReason::kDeadline,
                   absl::StrCat("a call of the tenant \"", limits.tenant,
                                "\" may take no longer than ", maximum, " (", kCallSeconds, ")"),
                   Metadata(limits, kCallSeconds, maximum));
}

}  // namespace upscaled::server
