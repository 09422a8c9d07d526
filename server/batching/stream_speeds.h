// How fast one stream of a device class computes while it runs, each executable by itself: an
// image of a slow network is not to be judged by another one's speed.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "absl/time/time.h"
#include "engine/backends/backend.h"
#include "server/base/throughput.h"
#include "server/devices/device_executable.h"

namespace upscaled::server {

// Knows executables as long as they are loaded. Not thread safe.
class StreamSpeeds {
 public:
  // Tells that a run of `cost` multiply-adds, ended now, took `busy`.
  void Record(const std::shared_ptr<const Executable>& executable, absl::Duration busy,
              int64_t cost, absl::Time now);

  // The speed of the work that ran; unknown after a minute without work: if it keeps calls out,
  // nothing else would tell the end of a slow time.
  ThroughputMeter OfAll(absl::Time now) const;
  // Multiply-adds a second, as measured on one of its parts; the speed of all if it never ran, and
  // 0 if it is not known. A speed without a measurement for minutes counts as this many times as
  // fast, for the same reason.
  double Of(const DeviceExecutable& executable, absl::Time now) const;
  // As measured last, however long ago. Where it never ran, a tenth of the last work's speed, and 0
  // without any.
  double LastOf(const std::shared_ptr<const Executable>& executable) const;

 private:
  struct Measured {
    ThroughputMeter meter;
    absl::Time at = absl::InfinitePast();

    void Add(absl::Duration busy, int64_t cost, absl::Time now);
  };

  Measured all_;
  std::map<std::weak_ptr<const Executable>, Measured, std::owner_less<>> executables_;
};

}  // namespace upscaled::server
