#include "server/base/throughput.h"

#include <algorithm>
#include <cmath>

namespace upscaled::server {
namespace {

constexpr double kTimeConstantSeconds = 30;

}  // namespace

void ThroughputMeter::Record(absl::Time now, bool busy, int64_t pixels) {
  if (busy && last_ != absl::InfinitePast() && now > last_) {
    const double elapsed = absl::ToDoubleSeconds(now - last_);
    const double keep = std::exp(-elapsed / kTimeConstantSeconds);
    pixels_ *= keep;
    busy_seconds_ = busy_seconds_ * keep + elapsed;
  }
  pixels_ += static_cast<double>(pixels);
  last_ = std::max(last_, now);
}

absl::Duration ThroughputMeter::TimeFor(int64_t pixels) const {
  if (!known()) return absl::ZeroDuration();
  return absl::Seconds(static_cast<double>(pixels) * busy_seconds_ / pixels_);
}

}  // namespace upscaled::server
