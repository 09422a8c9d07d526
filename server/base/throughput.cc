#include "server/base/throughput.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace upscaled::server {

void ThroughputMeter::Record(absl::Time now, bool busy, int64_t cost) {
  const bool counts = busy && last_ != absl::InfinitePast() && now > last_;
  Add(counts ? now - last_ : absl::ZeroDuration(), cost);
  last_ = std::max(last_, now);
}

void ThroughputMeter::Add(absl::Duration busy, int64_t cost) {
  const double seconds = absl::ToDoubleSeconds(busy);
  const double keep = std::exp(-seconds / time_constant_s_);
  cost_ = cost_ * keep + static_cast<double>(cost);
  busy_seconds_ = busy_seconds_ * keep + seconds;
}

void ThroughputMeter::KeepAtMost(absl::Duration max_busy) {
  if (busy() <= max_busy) return;
  const double keep = absl::ToDoubleSeconds(max_busy) / busy_seconds_;
  cost_ *= keep;
  busy_seconds_ *= keep;
}

absl::Duration ThroughputMeter::TimeFor(int64_t cost) const {
  if (!known()) return absl::ZeroDuration();
  return absl::Seconds(static_cast<double>(cost) * busy_seconds_ / cost_);
}

double ThroughputMeter::CostIn(absl::Duration time) const {
  if (busy_seconds_ <= 0) return std::numeric_limits<double>::infinity();
  return absl::ToDoubleSeconds(time) * cost_ / busy_seconds_;
}

}  // namespace upscaled::server
