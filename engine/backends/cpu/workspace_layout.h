// Where the tensors of a schedule lie in memory.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/backends/cpu/program.h"
#include "engine/backends/cpu/row_schedule.h"
#include "engine/graph/tile_plan.h"

namespace upscaled::cpu {

// Sets all of `schedule` but its target, its steps and whether it is staged. `regions`,
// `ring_rows`: the part of each layer that is stored, and how many of its rows at a time; `keeps`:
// as in ScheduleRows.
//
// The kernels' scratch comes first, then, unless a cache has it, what is kept from stage to stage,
// in slots that tensors share one after the other, then the rings of one stage in the place of
// those before.
void LayOutTensors(const Program& program, const TilePlan& plan, const std::vector<Rect>& regions,
                   const std::vector<int>& ring_rows, bool keeps, RowSchedule& schedule);

// Points the tensors into `workspace` (schedule.workspace_floats) and `cache`
// (schedule.cached_floats; may be null if it has none).
void BindWorkspace(const Program& program, float* workspace, float* cache, RowSchedule& schedule);

// Zeroes what reads as zero of the tensors of a stage, which is about to run.
void BeginStage(const Program& program, const RowSchedule& schedule, size_t stage);

}  // namespace upscaled::cpu
