// Hands out moments for refused callers to come back: each gets one of its own, so they do not
// return as a herd.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/time/time.h"

namespace upscaled::server {

// A queue of absent callers. Room becomes free at a pace; the waiting addresses share it, and the
// moments of one address follow each other at its share. An address with a thousand refusals a
// second delays itself only. Not thread safe.
class RetryTurns {
 public:
  // Later moments are taken from the second half of this time.
  static constexpr absl::Duration kMaxDelay = absl::Seconds(30);

  // Returns the delay until the address's next moment: `first` or later, but no later than
  // kMaxDelay. `step`: room for one more such caller becomes free each `step`.
  absl::Duration Next(const std::string& address, absl::Time now, absl::Duration first,
                      absl::Duration step);

  int64_t waiting() const { return static_cast<int64_t>(last_.size()); }  // addresses

 private:
  std::map<std::string, absl::Time> last_;       // the latest moment of each address, all to come
  absl::Time round_end_ = absl::InfinitePast();  // the latest of the addresses' first moments
  absl::Time swept_ = absl::InfinitePast();
};

}  // namespace upscaled::server
