// One run of a tile through a program.
#pragma once

#include <vector>

#include "absl/functional/function_ref.h"
#include "engine/backends/backend.h"
#include "engine/backends/cpu/program.h"
#include "engine/backends/cpu/tile_plan.h"
#include "engine/backends/cpu/workspace.h"

namespace upscaled::cpu {

// The kept layers of one tile, once its first run was through.
struct CachedLayers final : ActivationCache {
  HugeBuffer floats;
  size_t runs = 0;  // that have filled them
};

// Writes task.dst or task.sums; the task must have passed CheckTileTask. `workspace` grows as
// needed. `step_done` is called after each step, for profiles. Throws std::bad_alloc when memory is
// out.
//
// Returns the runs of result pixels (one row each, in the result's coordinates) with values that
// left the range of halves, which are undefined in task.dst. None in precision kExact.
std::vector<Rect> RunTile(const Program& program, const TileTask& task, HugeBuffer& workspace,
                          absl::FunctionRef<void(const TilePlan::Step&)> step_done);

}  // namespace upscaled::cpu
