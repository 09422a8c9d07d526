// A rate with a burst: how often something may happen.
#pragma once

#include <algorithm>

#include "absl/time/time.h"

namespace upscaled::server {

struct Rate {
  double per_second = 0;
  double burst = 0;  // how many at once, after a quiet time
};

// Not thread safe.
class TokenBucket {
 public:
  TokenBucket(Rate rate, absl::Time now) : rate_(rate), tokens_(rate.burst), updated_(now) {}

  // Takes a token; false when there is none. A `now` that goes backwards adds nothing.
  bool Take(absl::Time now) {
    const double elapsed_s = absl::ToDoubleSeconds(now - updated_);
    if (elapsed_s > 0) {
      Earn(elapsed_s * rate_.per_second);
      updated_ = now;
    }
    if (tokens_ < 1) return false;
    tokens_ -= 1;
    return true;
  }

  // Adds tokens, up to the burst.
  void Earn(double tokens) { tokens_ = std::min(rate_.burst, tokens_ + tokens); }

 private:
  Rate rate_;
  double tokens_;
  absl::Time updated_;
};

}  // namespace upscaled::server
