// The time shared by the processes of a machine, replaceable in tests.
#pragma once

#include <concepts>
#include <functional>
#include <string>
#include <utility>

#include "absl/time/time.h"

namespace upscaled::server {

// Thread safe.
class SystemClock {
 public:
  // The time since the machine's start, sleep included, and the id of that start. Setting the
  // system's clock changes neither. An empty `id`: the clock is never set.
  struct Boot {
    std::string id;
    absl::Duration age;
  };

  // The system's.
  SystemClock();
  // A clock never set.
  template <std::invocable Now>
  SystemClock(Now now) : now_(std::move(now)), since_boot_([] { return Boot(); }) {}
  SystemClock(std::function<absl::Time()> now, std::function<Boot()> since_boot)
      : now_(std::move(now)), since_boot_(std::move(since_boot)) {}

  absl::Time Now() const { return now_(); }
  Boot SinceBoot() const { return since_boot_(); }

 private:
  std::function<absl::Time()> now_;
  std::function<Boot()> since_boot_;
};

}  // namespace upscaled::server
