// Whether the client of one exchange moves fast enough, in both directions.
#pragma once

#include <algorithm>
#include <cstdint>

#include "absl/time/time.h"
#include "server/base/stall_meter.h"

namespace upscaled::server {

// Not thread safe.
class MinimumRate {
 public:
  MinimumRate(absl::Duration timeout, int64_t min_bytes)
      : input_(timeout, min_bytes), output_(timeout, min_bytes) {}

  // Sets the server's wait, from now on.
  void SetWaits(bool for_input, bool for_output, absl::Time now) {
    SetWait(input_, for_input, now);
    SetWait(output_, for_output, now);
  }
  void OnInput(int64_t bytes, absl::Time now) { input_.Move(bytes, now); }
  void OnOutput(int64_t bytes, absl::Time now) { output_.Move(bytes, now); }
  // The client has taken all bytes.
  void OnOutputTaken(absl::Time now) { output_.Restart(now); }

  bool input_stalled(absl::Time now) const { return Stalled(input_, now); }
  bool output_stalled(absl::Time now) const { return Stalled(output_, now); }
  // Until the first awaited client has stalled; infinite without a wait.
  absl::Duration Patience(absl::Time now) const {
    absl::Duration patience = absl::InfiniteDuration();
    for (const StallMeter* meter : {&input_, &output_}) {
      if (meter->waiting()) patience = std::min(patience, meter->Patience(now));
    }
    return patience;
  }

 private:
  static void SetWait(StallMeter& meter, bool waits, absl::Time now) {
    waits ? meter.BeginWait(now) : meter.EndWait(now);
  }
  static bool Stalled(const StallMeter& meter, absl::Time now) {
    return meter.waiting() && meter.Patience(now) <= absl::ZeroDuration();
  }

  StallMeter input_, output_;
};

}  // namespace upscaled::server
