#include "server/base/throughput.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace upscaled::server {
namespace {

constexpr double kTimeConstantSeconds = 30;

}  // namespace

void ThroughputMeter::Record(absl::Time now, bool busy, int64_t cost) {
  if (busy && last_ != absl::InfinitePast() && now > last_) {
    const double elapsed = absl::ToDoubleSeconds(now - last_);
    const double keep = std::exp(-elapsed / kTimeConstantSeconds);
    cost_ *= keep;
    busy_seconds_ = busy_seconds_ * keep + elapsed;
  }
  cost_ += static_cast<double>(cost);
  last_ = std::max(last_, now);
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
