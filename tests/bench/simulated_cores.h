// A team's work on a machine of many cores, replayed from step times measured on one: the real
// SharedUnits deal out the columns, and the core with the earliest clock takes next.
#pragma once

#include <span>
#include <vector>

namespace upscaled::bench {

// The costs unknown to one core.
struct SimulatedMachine {
  std::vector<double> speeds;  // of each core, relative to the one that was measured
  double start_s = 0;          // of the caller, for each helper that it starts
  double begin_s = 0;          // from there until the helper begins
  double end_s = 0;            // from a thread's end until the caller knows
  double take_s = 0;           // for each part that is taken: SharedUnits and the kernel's call
  double dispatch_s = 0;       // of each tile, one after the other: the scheduler's
  double bytes_per_s = 0;      // from memory, all cores together; 0: no limit
};

// One step of a schedule: a row of blocks of one layer.
struct SimulatedStep {
  int units = 1;
  double seconds = 0;  // on one core
  double bytes = 0;    // that come from memory or go there
};

enum class Sharing { kEqualParts, kTakenParts };

// Returns the time of a step on these of the machine's cores, at least one; the first is the
// caller's.
double StepSeconds(const SimulatedMachine& machine, const SimulatedStep& step,
                   std::span<const int> cores, Sharing sharing = Sharing::kTakenParts);

// Returns the time of an image of `tiles` equal tiles on all cores: one core per tile while there
// are tiles left, then idle cores help in even shares, up to `most_threads` a tile.
double ImageSeconds(const SimulatedMachine& machine, std::span<const SimulatedStep> tile_steps,
                    int tiles, int most_threads);

}  // namespace upscaled::bench
