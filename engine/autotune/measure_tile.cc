#include "engine/autotune/measure_tile.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/autotune/interleaved_benchmark.h"

namespace upscaled {

std::string TileName(Size tile) { return absl::StrCat(tile.width, "x", tile.height); }

TuningEntry MeasureTile(TileCandidates& candidates, absl::Duration budget, const Clock& clock) {
  constexpr double kPixels = 1e6;  // whose time is compared
  std::vector<TimedCandidate> timed;
  for (const Size tile : candidates.tiles()) {
    candidates.Run(tile);  // the memory of a tile that was never run is slow
    timed.push_back({TileName(tile), [&candidates, &clock, tile] {
                       const absl::Time start = clock.Now();
                       const double pixels = candidates.Run(tile);
                       return (clock.Now() - start) * (kPixels / pixels);
                     }});
  }
  RunInterleaved(timed, budget, clock);
  TuningEntry entry;
  const TimedCandidate* winner = nullptr;
  for (const TimedCandidate& candidate : timed) {
    entry.gflops[candidate.name] =
        2e-9 * kPixels * candidates.MacsPerPixel() / absl::ToDoubleSeconds(candidate.best);
    if (winner == nullptr || candidate.best * kClearlyFaster < winner->best) winner = &candidate;
  }
  entry.choice = winner->name;
  return entry;
}

}  // namespace upscaled
