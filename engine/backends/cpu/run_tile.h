// One pass of a tile through a program.
#pragma once

#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "engine/backends/backend.h"
#include "engine/backends/cpu/program.h"
#include "engine/backends/cpu/row_schedule.h"
#include "engine/backends/cpu/workspace.h"

namespace upscaled::cpu {

// The cached layers of one tile of a program.
struct CachedLayers final : ActivationCache {
  explicit CachedLayers(const Program& program) : ActivationCache(&program) {}
  void FreeTensors() override { floats = {}; }

  HugeBuffer floats;
};

// Writes task.dst or the pass's partial sums; the task must have passed CheckTileTask, but for its
// plan, which is this program's. `workspace` grows as needed. `step_done` is called after each
// step, for profiles. Leaves task.dst undefined where task.cancellation says so between two stages.
// Throws std::bad_alloc when memory is out.
//
// Returns the runs of pixels (one row each) with values that left the range of halves: of the
// result, in its coordinates, which are undefined in task.dst, or of the pooled layer, in its own,
// which are missing in the sums. None in precision kExact. `counted`: where not empty, all that is
// added to the sums, in that layer's coordinates.
std::vector<Rect> RunTile(const Program& program, const TileTask& task, HugeBuffer& workspace,
                          absl::FunctionRef<void(const RowSchedule::Step&)> step_done,
                          std::span<const Rect> counted = {});

}  // namespace upscaled::cpu
