// The time that the processes of a machine share, replaceable in tests.
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
  // How long ago the machine was started, with the time that it slept, and which start that was.
  // Setting the system's clock changes neither. An empty `id`: the clock is never set.
  struct Boot {
    std::string id;
    absl::Duration age;
  };

  // The system's.
  SystemClock();
  // A clock that is never set.
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
