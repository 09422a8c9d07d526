// How fast the server has been computing lately, as a basis for retry delays.
#pragma once

#include <cstdint>

#include "absl/time/time.h"

namespace upscaled::server {

// Multiply-adds per second of busy time, the past fading with a time constant. Idle time does not
// count, so a quiet night does not make the server look slow. Not thread safe.
class ThroughputMeter {
 public:
  explicit ThroughputMeter(absl::Duration time_constant)
      : time_constant_s_(absl::ToDoubleSeconds(time_constant)) {}
  ThroughputMeter() : ThroughputMeter(absl::Seconds(30)) {}

  // Records the time since the last call: `busy`: there was work; `cost`: finished at its end. A
  // time before the last counts as zero.
  void Record(absl::Time now, bool busy, int64_t cost);

  // Records `cost` in the time `busy`, at any time.
  void Add(absl::Duration busy, int64_t cost);

  // Limits the weight of the known speed to this busy time, so new measurements soon outweigh it.
  void KeepAtMost(absl::Duration max_busy);

  // Whether anything has been finished yet.
  bool known() const { return cost_ > 0; }
  // The measured busy time, without the faded part.
  absl::Duration busy() const { return absl::Seconds(busy_seconds_); }
  // Time to compute `cost`; zero while nothing is known.
  absl::Duration TimeFor(int64_t cost) const;
  // The computed cost in `time`; infinite while nothing is known.
  double CostIn(absl::Duration time) const;

 private:
  double time_constant_s_;
  absl::Time last_ = absl::InfinitePast();
  double cost_ = 0;
  double busy_seconds_ = 0;
};

}  // namespace upscaled::server
