// A broker without an answer: one call waits for it, and not each.
#pragma once

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace upscaled::server {

// Calls waiting for their turn behind another one's silence need not wait for the broker again. Not
// thread safe.
class BrokerSilence {
 public:
  // The error of the last call with a silent broker, for kPause after its end; OK: ask the broker.
  absl::Status Check(absl::Time now) const {
    const bool pauses = now < next_try_ && now >= next_try_ - kPause;  // clocks are set back
    return pauses ? status_ : absl::OkStatus();
  }
  // A call from `begin` on has lost the broker by `status`. A quick one was refused, and met no
  // silence.
  void Note(const absl::Status& status, absl::Time begin) {
    const absl::Time now = absl::Now();
    if (now - begin < kSilence) return;
    status_ = status;
    next_try_ = now + kPause;
  }

 private:
  static constexpr absl::Duration kSilence = absl::Seconds(1), kPause = absl::Seconds(1);

  absl::Status status_;
  absl::Time next_try_ = absl::InfinitePast();
};

}  // namespace upscaled::server
