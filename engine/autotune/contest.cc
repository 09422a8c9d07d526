#include "engine/autotune/contest.h"

#include <algorithm>

namespace upscaled {
namespace {

// Not worth more rounds, after those that all may run: one may have been interrupted.
constexpr double kHopeless = 2;
constexpr int kFairRounds = 2;

}  // namespace

void RunInTurns(std::vector<Contender>& contenders, absl::Duration budget, const Clock& clock) {
  const absl::Time end = clock.Now() + budget;
  absl::Duration fastest = absl::InfiniteDuration();
  for (int round = 0; round < kFairRounds || clock.Now() < end; ++round) {
    for (Contender& contender : contenders) {
      if (round >= kFairRounds && contender.best > kHopeless * fastest) continue;
      contender.best = std::min(contender.best, contender.run());
      fastest = std::min(fastest, contender.best);
    }
  }
}

}  // namespace upscaled
