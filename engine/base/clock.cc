#include "engine/base/clock.h"

#include "absl/time/clock.h"

namespace upscaled {

const Clock& Clock::Real() {
  class RealClock : public Clock {
    absl::Time Now() const override { return absl::Now(); }
  };
  static const RealClock* const clock = new RealClock;
  return *clock;
}

}  // namespace upscaled
