#include "server/admission/retry_turns.h"

#include <algorithm>

namespace upscaled::server {
namespace {

// The distance of two moments, as a part of the time until room becomes free. Callers come back
// late, by the way to the server and by a tenth of their delay; nothing would run until they are
// there.
constexpr double kCloser = 0.9;
constexpr absl::Duration kSweepInterval = absl::Milliseconds(100);

}  // namespace

absl::Duration RetryTurns::Next(const std::string& address, absl::Time now, absl::Duration first,
                                absl::Duration step) {
  if (now < swept_ || now - swept_ >= kSweepInterval) {
    std::erase_if(last_, [&](const auto& entry) { return entry.second <= now; });
    swept_ = now;
  }
  const auto own = last_.try_emplace(address, now).first;
  step *= kCloser;
  absl::Duration delay = first;
  if (own->second <= now) {
    if (round_end_ > now) delay = std::max(first, round_end_ - now + step);
    round_end_ = now + std::min(delay, kMaxDelay);
  } else {
    delay = std::max(first, own->second - now + step * static_cast<double>(last_.size()));
  }
  if (delay > kMaxDelay) {
    const absl::Duration half = kMaxDelay / 2;
    absl::Duration beyond;
    absl::IDivDuration(delay - kMaxDelay, half, &beyond);
    delay = half + beyond;
  }
  own->second = now + delay;
  return delay;
}

}  // namespace upscaled::server
