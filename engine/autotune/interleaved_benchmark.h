// Times several candidates for the same work in turns, so a slowdown of the machine hits all
// alike.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "engine/base/clock.h"

namespace upscaled {

// Times of one candidate may differ by this much for no reason. A candidate displaces one shipped
// before it only if it is clearly faster.
inline constexpr double kClearlyFaster = 1.03;

struct TimedCandidate {
  std::string name;
  std::function<absl::Duration()> run;  // once; what it took, infinite if it failed
  absl::Duration best = absl::InfiniteDuration();
};

// Runs them in turns for about `budget` and notes their best times. Each runs at least twice; one
// far slower than another runs only twice.
void RunInterleaved(std::vector<TimedCandidate>& timed, absl::Duration budget, const Clock& clock);

}  // namespace upscaled
