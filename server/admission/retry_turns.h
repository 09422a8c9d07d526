// Hands out the moments at which refused callers may come back: each gets one of its own, so that
// they do not return as a herd.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/time/time.h"

namespace upscaled::server {

// A queue of callers that are not there. An address's moments follow each other at the pace at
// which room becomes free, divided among the addresses that wait; so one that is refused a thousand
// times a second delays itself and no other. Not thread safe.
class RetryTurns {
 public:
  // Later moments are taken from the second half of this time.
  static constexpr absl::Duration kMaxDelay = absl::Seconds(30);

  // Returns the delay until the address's next moment: `first` or later, but no later than
  // kMaxDelay. `step`: the time in which room for one more such caller becomes free.
  absl::Duration Next(const std::string& address, absl::Time now, absl::Duration first,
                      absl::Duration step);

  int64_t waiting() const { return static_cast<int64_t>(last_.size()); }  // addresses

 private:
  std::map<std::string, absl::Time> last_;       // the latest moment of each address, all to come
  absl::Time round_end_ = absl::InfinitePast();  // the latest of the addresses' first moments
  absl::Time swept_ = absl::InfinitePast();
};

}  // namespace upscaled::server
