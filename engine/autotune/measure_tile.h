// Finds a network's fastest size of tiles.
#pragma once

#include "absl/time/time.h"
#include "engine/autotune/tuning_table.h"
#include "engine/base/clock.h"
#include "engine/graph/kernel_choice.h"

namespace upscaled {

// "480x270", as tables name a tile.
std::string TileName(Size tile);

// Computes parts of tiles of each size in turns for about `budget` and takes the size with the most
// pixels a second; it must be clearly faster to displace the shipped order.
TuningEntry MeasureTile(TileCandidates& candidates, absl::Duration budget, const Clock& clock);

}  // namespace upscaled
