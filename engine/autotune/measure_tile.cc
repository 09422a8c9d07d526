#include "engine/autotune/measure_tile.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/autotune/contest.h"

namespace upscaled {

std::string TileName(Size tile) { return absl::StrCat(tile.width, "x", tile.height); }

TuningEntry MeasureTile(TileCandidates& candidates, absl::Duration budget, const Clock& clock) {
  constexpr double kPixels = 1e6;  // whose time is compared
  std::vector<Contender> contenders;
  for (const Size tile : candidates.tiles()) {
    candidates.Run(tile);  // the memory of a tile that was never run is slow
    contenders.push_back({TileName(tile), [&candidates, &clock, tile] {
                            const absl::Time start = clock.Now();
                            const double pixels = candidates.Run(tile);
                            return (clock.Now() - start) * (kPixels / pixels);
                          }});
  }
  RunInTurns(contenders, budget, clock);
  TuningEntry entry;
  const Contender* winner = nullptr;
  for (const Contender& contender : contenders) {
    entry.gflops[contender.name] =
        2e-9 * kPixels * candidates.MacsPerPixel() / absl::ToDoubleSeconds(contender.best);
    if (winner == nullptr || contender.best * kClearlyFaster < winner->best) winner = &contender;
  }
  entry.choice = winner->name;
  return entry;
}

}  // namespace upscaled
