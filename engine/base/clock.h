// Time as the engine and the server see it; tests inject a fake.
#pragma once

#include "absl/time/time.h"

namespace upscaled {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual absl::Time Now() const = 0;

  // The system clock; never destroyed.
  static const Clock& Real();
};

}  // namespace upscaled
