// Whether a client does its part fast enough: in every `timeout` of our wait for it, it must move
// `min_bytes`, or all there is.
#pragma once

#include <cstdint>

#include "absl/time/time.h"

namespace upscaled::server {

// Counts the time of our waits, and nothing else. Not thread safe.
class StallMeter {
 public:
  StallMeter(absl::Duration timeout, int64_t min_bytes)
      : timeout_(timeout), min_bytes_(min_bytes) {}

  // Does nothing while it counts.
  void BeginWait(absl::Time now) {
    if (waiting_) return;
    waiting_ = true;
    since_ = now;
  }
  void EndWait(absl::Time now) {
    if (waiting_) waited_ += now - since_;
    waiting_ = false;
  }
  bool waiting() const { return waiting_; }
  // The client has moved this many bytes.
  void Move(int64_t bytes, absl::Time now) {
    bytes_ += bytes;
    if (bytes_ >= min_bytes_) Restart(now);
  }
  // The client has done its part so far.
  void Restart(absl::Time now) {
    bytes_ = 0;
    waited_ = absl::ZeroDuration();
    since_ = now;
  }

  // Time to wait before the client has stalled; never negative.
  absl::Duration Patience(absl::Time now) const {
    const absl::Duration waited = waited_ + (waiting_ ? now - since_ : absl::ZeroDuration());
    return waited < timeout_ ? timeout_ - waited : absl::ZeroDuration();
  }

 private:
  const absl::Duration timeout_;
  const int64_t min_bytes_;
  int64_t bytes_ = 0;  // since the last restart, as is the time waited
  absl::Duration waited_;
  bool waiting_ = false;
  absl::Time since_;  // while waiting_
};

}  // namespace upscaled::server
