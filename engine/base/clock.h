// Time as the engine and the server see it; tests inject a fake.
#pragma once

#include "absl/time/time.h"

namespace upscaled {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual absl::Time Now() const = 0;

  // The system's time when it is first asked for, and from then on the monotonic clock: whoever
  // sets the system's clock changes no duration. Not for time stamps that people read. Never
  // destroyed.
  static const Clock& Real();
};

}  // namespace upscaled
