// One pass of a tile through a program.
#pragma once

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
// step, for profiles. Throws std::bad_alloc when memory is out.
//
// Returns the runs of result pixels (one row each, in the result's coordinates) with values that
// left the range of halves, which are undefined in task.dst. None in precision kExact.
std::vector<Rect> RunTile(const Program& program, const TileTask& task, HugeBuffer& workspace,
                          absl::FunctionRef<void(const RowSchedule::Step&)> step_done);

}  // namespace upscaled::cpu
