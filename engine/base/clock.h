// Time as the engine and the server see it; tests inject a fake.
#pragma once

#include "absl/time/time.h"

namespace upscaled {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual absl::Time Now() const = 0;

  // Returns the system's time at the first call, plus the monotonic clock's progress since. Setting
  // the system's clock changes no duration. Not for human-readable time stamps. Never destroyed.
  static const Clock& Real();
};

}  // namespace upscaled
