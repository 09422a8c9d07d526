// One pass of a tile through a program.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "engine/backends/backend.h"
#include "engine/backends/cpu/program.h"
#include "engine/backends/cpu/row_schedule.h"
#include "engine/backends/cpu/spare_buffers.h"
#include "engine/backends/cpu/team.h"
#include "engine/backends/cpu/workspace.h"

namespace upscaled::cpu {

// In source pixels. A narrower part of a tile is not worth another thread's while.
inline constexpr int kMinSharePx = 48;

// Threads take a step's columns in units of this width, from its first column on: register tiles,
// or whole windows of attention.
int UnitPx(const Program& program, int layer);

// The cached layers of one tile of a program. `spares`: where their memory is from.
class CachedLayers final : public ActivationCache {
 public:
  CachedLayers(const Program& program, std::shared_ptr<SpareBuffers> spares)
      : ActivationCache(&program), spares_(std::move(spares)) {}
  ~CachedLayers() override { spares_->Return(std::exchange(floats_, {})); }

  // Room for so many, whose contents stay from pass to pass.
  float* Reserve(size_t floats) {
    if (floats_.size() < floats) {
      FreeTensors();
      floats_ = spares_->Take(floats);
    }
    return floats_.data();
  }

 private:
  void FreeTensors() override { spares_->Return(std::exchange(floats_, {})); }

  const std::shared_ptr<SpareBuffers> spares_;
  HugeBuffer floats_;
};

// Tiles and slices with more runs of pixels that left the range of halves are computed in parts, so
// that these take a known amount of memory.
inline constexpr size_t kMaxOverflowedRuns = size_t{1} << 16;

// The parts of a step's rows that are computed, from left to right, each from a multiple of UnitPx
// on.
using RunsOfStep = absl::FunctionRef<std::span<const Rect>(const RowSchedule::Step&)>;

// How far a schedule has run.
struct StepCursor {
  size_t next = 0;   // step
  size_t stage = 0;  // that has begun, unless no step has run
};

// Runs the steps of a schedule in a bound workspace from the cursor up to `end`, with team as
// below; `scratch`: the calling thread's. Returns whether it came to the end: it looks for
// task.cancellation before each step. Adds runs with values that left the range of halves to
// `overflowed`.
bool RunSteps(const Program& program, const TileTask& task, const RowSchedule& schedule, size_t end,
              float* scratch, Team& team, RunsOfStep runs_of, StepCursor& cursor,
              std::vector<Rect>& overflowed);

// Writes the rows of the schedule's target still in its ring to task.dst, as RunSteps does with
// computed ones.
void StoreRows(const Program& program, const TileTask& task, const RowSchedule& schedule,
               const Rect& rows, std::vector<Rect>& overflowed);

// Writes task.dst or the pass's partial sums. The task must have passed CheckTileTask, except for
// its plan: that is this program's. `workspace` grows as needed. `step_done` is called after each
// step, for profiles. `team`: computes each step, in columns. Leaves task.dst undefined where
// task.cancellation says so between two steps. Throws std::bad_alloc when memory is out.
//
// Returns the runs of pixels (one row each) with values that left the range of halves: of the
// result, in its coordinates, which are undefined in task.dst, or of the pooled layer, in its own,
// which are missing in the sums. None in precision kExact. Ends, with task.dst or the sums
// undefined, once there are more than kMaxOverflowedRuns. `counted`: where not empty, all that is
// added to the sums, in that layer's coordinates.
std::vector<Rect> RunTile(const Program& program, const TileTask& task, HugeBuffer& workspace,
                          Team& team, absl::FunctionRef<void(const RowSchedule::Step&)> step_done,
                          std::span<const Rect> counted = {});

}  // namespace upscaled::cpu
