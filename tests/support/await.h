// Waiting for a state that must come.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <source_location>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace upscaled::test {

// Until `condition` holds. Where it does not within two minutes this ends the process, and tells
// the caller's line: what the test began might never be idle, and destructors would wait for that.
template <typename Condition>
void Await(Condition condition, std::source_location at = std::source_location::current()) {
  const absl::Time end = absl::Now() + absl::Minutes(2);
  while (!condition()) {
    if (absl::Now() > end) {
      std::fprintf(stderr, "%s:%u: this did not come in two minutes\n", at.file_name(), at.line());
      std::abort();
    }
    absl::SleepFor(absl::Milliseconds(1));
  }
}

}  // namespace upscaled::test
