// How one pass of a tile goes: row by row through all layers at once, so that a layer's rows are
// read while they are still in cache, and rows are never computed twice.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/backends/cpu/kernels/kernel.h"
#include "engine/backends/cpu/program.h"
#include "engine/base/geometry.h"
#include "engine/graph/tile_plan.h"

namespace upscaled::cpu {

// Rows that a layer without blocks computes at once. Where hundreds of layers read ahead of each
// other, rows at once are rows in every ring before.
inline constexpr int kPlainRows = 4;

// Whether all of a layer is one step, of one thread: its parts' sums would be added up again for
// each step.
inline bool IsOneStep(const Layer& layer) { return layer.op == Op::kPartAttention; }

// Rows that a layer, not in one step, computes at once: of a block, of a window of attention, or
// kPlainRows.
int RowsAtOnce(const Program& program, int layer);

// Limits a stream's scratch for the smallest tile that is ever preferred, for an image in one tile,
// and for a tile in stages.
inline constexpr size_t kMaxWorkspaceBytes = size_t{1} << 30;

struct RowSchedule {
  // Rows of one layer, in order of execution: earlier steps have computed a step's inputs, and
  // these are still in its ring.
  struct Step {
    int layer;
    Rect rows;  // as LayerKernel::Run takes them
  };
  bool staged = false;          // in Program::cuts, or all layers at once
  size_t first_stage = 0;       // the first one that is run
  int target = 0;               // the layer that the pass is for: a pooled one, or the last
  std::vector<Tensor> tensors;  // one that is kept holds all rows of its region
  std::vector<size_t> offsets;  // where each one's storage begins, if it has some of its own
  std::vector<int> widths_px;   // the columns that it has beside its margins
  std::vector<Step> steps;      // stage by stage (Program::cuts)
  size_t step_count = 0;
  size_t workspace_floats = 0;
  size_t cached_floats = 0;  // size of the cached tensors; the same for all passes of a tile

  size_t StageOf(const Program& program, int layer) const {
    return staged ? program.StageOf(layer) : 0;
  }
};

// The plan for a program, without its maker.
TilePlan PlanTile(const Program& program, Size image, const Rect& tile);

// Schedules pass `pass` of a tile planned for this program. The pass runs once the means of the
// first `pass` global poolings are known. The last pass computes the result. Uses the program's
// stages if it has any, and if the kept tensors fit in memory or in a cache. The result is the
// same either way. `keeps`: the tensors in Program::cached persist from pass to pass, and did in
// earlier passes.
RowSchedule ScheduleRows(const Program& program, const TilePlan& plan, size_t pass = 0,
                         bool keeps = false);

// ScheduleRows without its steps, which are only counted: its memory does not grow with the height.
RowSchedule MeasureRows(const Program& program, const TilePlan& plan, size_t pass = 0,
                        bool keeps = false);

// Schedules a pass that keeps its tensors, as strips of columns run one after the other. There
// is little work between two kept layers, so narrow strips recompute hardly anything. Their rows
// stay in the core's cache. All strips share the kept tensors. The program must have global
// poolings. One with stages runs in one piece.
std::vector<RowSchedule> ScheduleStrips(const Program& program, const TilePlan& plan, size_t pass);

}  // namespace upscaled::cpu
