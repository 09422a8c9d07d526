// Waiting for a state.
#pragma once

#include <cstdio>
#include <cstdlib>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace upscaled::test {

// Less than ctest's limit: a test names its wait before ctest ends it.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr absl::Duration kPatience = absl::Seconds(300);
#else
inline constexpr absl::Duration kPatience = absl::Seconds(60);
#endif

// Until `condition` holds; whether it did in time.
template <typename Condition>
bool Comes(Condition condition) {
  const absl::Time end = absl::Now() + kPatience;
  while (!condition()) {
    if (absl::Now() > end) return false;
    absl::SleepFor(absl::Milliseconds(1));
  }
  return true;
}

// Until `condition` holds. Where it does not in time this ends the process, and names the line: the
// test's work might never be idle, and destructors would wait for it.
template <typename Condition>
void Await(Condition condition, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  if (Comes(condition)) return;
  std::fprintf(stderr, "%s:%d: this did not come in time\n", file, line);
  std::abort();
}

}  // namespace upscaled::test
