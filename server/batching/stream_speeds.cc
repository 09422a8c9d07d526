#include "server/batching/stream_speeds.h"

#include <algorithm>

namespace upscaled::server {
namespace {

// The life of a measurement.
constexpr absl::Duration kSpeedLife = absl::Minutes(1);
// How much slower than others a network may be.
constexpr double kUnlike = 10;

}  // namespace

void StreamSpeeds::Measured::Add(absl::Duration busy, int64_t cost, absl::Time now) {
  if (now - at > kSpeedLife) meter = {};
  meter.Add(busy, cost);
  at = now;
}

void StreamSpeeds::Record(const std::shared_ptr<const Executable>& executable, absl::Duration busy,
                          int64_t cost, absl::Time now) {
  all_.Add(busy, cost, now);
  auto measured = executables_.find(executable);
  if (measured == executables_.end()) {
    std::erase_if(executables_, [](const auto& entry) { return entry.first.expired(); });
    measured = executables_.try_emplace(executable).first;
  }
  measured->second.Add(busy, cost, now);
}

ThroughputMeter StreamSpeeds::OfAll(absl::Time now) const {
  return now - all_.at > kSpeedLife ? ThroughputMeter() : all_.meter;
}

double StreamSpeeds::LastOf(const std::shared_ptr<const Executable>& executable) const {
  const auto measured = executables_.find(executable);
  if (measured != executables_.end()) return measured->second.meter.CostIn(absl::Seconds(1));
  return all_.meter.known() ? all_.meter.CostIn(absl::Seconds(1)) / kUnlike : 0;
}

double StreamSpeeds::Of(const DeviceExecutable& executable, absl::Time now) const {
  const ThroughputMeter all = OfAll(now);
  if (!all.known()) return 0;
  for (const DeviceExecutable::Part& part : executable.parts()) {
    const auto measured = executables_.find(part.executable);
    if (measured == executables_.end()) continue;
    const double lives = absl::FDivDuration(now - measured->second.at, kSpeedLife);
    return measured->second.meter.CostIn(absl::Seconds(1)) * std::max(lives, 1.0);
  }
  return all.CostIn(absl::Seconds(1));
}

}  // namespace upscaled::server
