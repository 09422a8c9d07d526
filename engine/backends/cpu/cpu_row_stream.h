// An image as one stream of rows: the schedule of a tile that is all of it, run in slices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/backends/backend.h"
#include "engine/backends/cpu/program.h"
#include "engine/backends/cpu/row_schedule.h"
#include "engine/backends/cpu/run_tile.h"
#include "engine/backends/cpu/team.h"
#include "engine/backends/cpu/workspace.h"

namespace upscaled::cpu {

class CpuRowStream final : public RowStream {
 public:
  // `program`, without global poolings, must outlive it. `poisons`: BackendOptions::poisons_memory.
  CpuRowStream(const void* maker, const Program& program, Size image, bool poisons);

  // Returns the need of a stream, by a dry run of its rows.
  static RowStreamNeed Need(const Program& program, Size image);

  int64_t PlanSlice(int bottom, int64_t max_cost, const RowParts* parts) override;
  // Computes runs of pixels of a task's band, which left the range of halves (RunTile), once more.
  using ReplaceRuns = absl::FunctionRef<absl::Status(std::span<const Rect> runs)>;

  // Runs the slice that was planned last; `replace` is called with not many more runs than
  // kMaxOverflowedRuns at a time. Throws std::bad_alloc when memory is out. Where the task is
  // cancelled the stream is of no more use.
  absl::Status Run(const TileTask& task, Team& team, ReplaceRuns replace);

 private:
  // The parts of a step's rows on which the slice's parts depend, until the next call.
  std::span<const Rect> RunsOf(const RowSchedule::Step& step);
  int64_t CostOf(const RowSchedule::Step& step);
  // Behind the next step that gives rows of the result, within the slice.
  size_t EndOfNextRows() const;
  // Returns these runs of the result, cut to the slice's parts.
  std::vector<Rect> CutToParts(std::vector<Rect> runs) const;

  const Program& program_;
  const TilePlan plan_;
  RowSchedule schedule_;
  HugeBuffer rings_;  // from the first slice on
  StepCursor cursor_;
  size_t slice_end_ = 0;             // step
  const RowParts* parts_ = nullptr;  // the slice's
  std::vector<Rect> runs_;           // RunsOf's
  // Rows of the result, from the top: computed, and written to bands. The ring still has those
  // between.
  int computed_ = 0;
  int written_ = 0;
};

}  // namespace upscaled::cpu
