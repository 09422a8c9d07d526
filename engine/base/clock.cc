#include "engine/base/clock.h"

#include <chrono>

#include "absl/time/clock.h"

namespace upscaled {

const Clock& Clock::Real() {
  class RealClock : public Clock {
    absl::Time Now() const override {
      return begin_ + absl::FromChrono(std::chrono::steady_clock::now() - steady_begin_);
    }
    const absl::Time begin_ = absl::Now();
    const std::chrono::steady_clock::time_point steady_begin_ = std::chrono::steady_clock::now();
  };
  static const RealClock* const clock = new RealClock;
  return *clock;
}

}  // namespace upscaled
