#include "server/telemetry/line_limit.h"

#include <algorithm>
#include <utility>

namespace upscaled::server {
namespace {

constexpr std::string_view kOtherKinds = "(others)";

}  // namespace

bool LineLimit::Admit(std::string_view kind, const LineRate& rate) {
  const absl::Time now = clock_.Now();
  absl::MutexLock lock(&mutex_);
  auto found = buckets_.find(kind);
  if (found == buckets_.end()) {
    const std::string_view name = buckets_.size() < kMaxKinds ? kind : kOtherKinds;
    found = buckets_.try_emplace(std::string(name), Bucket{rate.burst, now}).first;
  }
  Bucket& bucket = found->second;
  const double refill = absl::ToDoubleSeconds(now - bucket.filled) * rate.per_second;
  bucket.lines = std::min(rate.burst, bucket.lines + refill);
  bucket.filled = now;
  if (bucket.lines >= 1) {
    --bucket.lines;
    return true;
  }
  ++bucket.omitted;
  ++total_;
  return false;
}

std::vector<LineLimit::Omission> LineLimit::TakeOmissions() {
  absl::MutexLock lock(&mutex_);
  std::vector<Omission> omissions;
  for (auto& [kind, bucket] : buckets_) {
    if (bucket.omitted > 0) omissions.push_back({kind, std::exchange(bucket.omitted, 0)});
  }
  return omissions;
}

bool LineLimit::has_omissions() const {
  absl::MutexLock lock(&mutex_);
  return std::ranges::any_of(buckets_, [](const auto& kind) { return kind.second.omitted > 0; });
}

int64_t LineLimit::total() const {
  absl::MutexLock lock(&mutex_);
  return total_;
}

}  // namespace upscaled::server
