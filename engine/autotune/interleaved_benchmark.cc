#include "engine/autotune/interleaved_benchmark.h"

#include <algorithm>

namespace upscaled {
namespace {

// Not worth more rounds, after the rounds of all: one may have been interrupted.
constexpr double kHopeless = 2;
constexpr int kFairRounds = 2;

}  // namespace

void RunInterleaved(std::vector<TimedCandidate>& timed, absl::Duration budget, const Clock& clock) {
  const absl::Time end = clock.Now() + budget;
  absl::Duration fastest = absl::InfiniteDuration();
  for (int round = 0; round < kFairRounds || clock.Now() < end; ++round) {
    for (TimedCandidate& candidate : timed) {
      if (round >= kFairRounds && candidate.best > kHopeless * fastest) continue;
      candidate.best = std::min(candidate.best, candidate.run());
      fastest = std::min(fastest, candidate.best);
    }
  }
}

}  // namespace upscaled
