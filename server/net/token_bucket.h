// A rate with a burst: how often something may happen.
#pragma once

#include <algorithm>

#include "absl/time/time.h"

namespace upscaled::server {

struct Rate {
  double per_second = 0;
  double burst = 0;  // how many at once, after a quiet time
};

// Not thread safe. A `now` before the last adds nothing.
class TokenBucket {
 public:
  TokenBucket(Rate rate, absl::Time now) : rate_(rate), tokens_(rate.burst), updated_(now) {}

  // Takes a token; false if the bucket is empty.
  bool Take(absl::Time now) {
    Refill(now);
    if (tokens_ < 1) return false;
    tokens_ -= 1;
    return true;
  }

  // Until there is a token; zero: there is one.
  absl::Duration TimeToToken(absl::Time now) {
    Refill(now);
    return tokens_ >= 1 ? absl::ZeroDuration() : absl::Seconds((1 - tokens_) / rate_.per_second);
  }

  // Takes tokens unconditionally. Missing tokens become a debt.
  void Spend(double tokens, absl::Time now) {
    Refill(now);
    tokens_ -= tokens;
  }
  // Time until the debt is paid; zero without a debt.
  absl::Duration TimeInDebt(absl::Time now) {
    Refill(now);
    constexpr double kRounding = 1e-6;  // of a token
    if (tokens_ >= -kRounding) return absl::ZeroDuration();
    return absl::Seconds(-tokens_ / rate_.per_second);
  }

  // Adds tokens, up to the burst.
  void Earn(double tokens) { tokens_ = std::min(rate_.burst, tokens_ + tokens); }

  // Refills for the time since the last call, up to the burst.
  void SetRate(Rate rate, absl::Time now) {
    rate_ = rate;
    Refill(now);
    Earn(0);
  }

 private:
  void Refill(absl::Time now) {
    const double elapsed_s = absl::ToDoubleSeconds(now - updated_);
    if (elapsed_s <= 0) return;
    Earn(elapsed_s * rate_.per_second);
    updated_ = now;
  }

  Rate rate_;
  double tokens_;
  absl::Time updated_;
};

}  // namespace upscaled::server
