// Ends the process in time, even if something hangs.
#pragma once

#include <optional>
#include <thread>

#include "absl/time/time.h"

namespace upscaled::client {

// Ends the process, as a call that failed, when it outlives `timeout` by `grace`. Calls keep their
// deadlines themselves; this is for a lost deadline in a library below.
class ForcedExit {
 public:
  static constexpr absl::Duration kGrace = absl::Seconds(5);

  // An infinite `timeout` is never over.
  explicit ForcedExit(absl::Duration timeout, absl::Duration grace = kGrace);

 private:
  std::optional<std::jthread> waiter_;
};

}  // namespace upscaled::client
