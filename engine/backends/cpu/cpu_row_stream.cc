#include "engine/backends/cpu/cpu_row_stream.h"

#include <algorithm>
#include <utility>

#include "engine/backends/cpu/workspace_layout.h"
#include "engine/base/check.h"
#include "engine/base/int_math.h"
#include "engine/model/multiply_adds.h"

namespace upscaled::cpu {
namespace {

// A last layer without blocks has steps that end where bands do.
static_assert(RowStream::kBandMultiple % kPlainRows == 0);

TilePlan PlanWhole(const Program& program, Size image) {
  return PlanTile(program, image, {0, 0, image.width, image.height});
}

}  // namespace

CpuRowStream::CpuRowStream(const void* maker, const Program& program, Size image, bool poisons)
    : RowStream(maker),
      program_(program),
      plan_(PlanWhole(program, image)),
      schedule_(ScheduleRows(program, plan_)),
      rings_(poisons ? HugeBuffer::Poisoned() : HugeBuffer()) {
  UPSCALED_CHECK(program.poolings.empty());
}

RowStreamNeed CpuRowStream::Need(const Program& program, Size image) {
  const TilePlan plan = PlanWhole(program, image);
  const RowSchedule schedule = MeasureRows(program, plan);
  // While a vector doubles it is there twice, and holds hardly more than the smaller one.
  constexpr size_t kGrowth = 3;
  return {.bytes = HugeBuffer::BytesFor(schedule.workspace_floats) +
                   kGrowth * schedule.step_count * sizeof(RowSchedule::Step) + plan.bytes() +
                   schedule.tensors.size() * (sizeof(Tensor) + sizeof(size_t) + sizeof(int)),
          .scratch_bytes = program.scratch_floats * sizeof(float),
          .sees_all = schedule.staged};
}

std::span<const Rect> CpuRowStream::RunsOf(const RowSchedule::Step& step) {
  const Rect& rows = step.rows;
  runs_.clear();
  const auto needs_all = [&] {
    return parts_ == nullptr || (parts_->unknown != nullptr &&
                                 !Intersect(parts_->unknown->regions[step.layer], rows).empty());
  };
  if (needs_all()) {
    runs_.push_back(rows);
    return runs_;
  }
  const int unit_px = UnitPx(program_, step.layer);
  for (const auto& tile : parts_->tiles) {
    const Rect part = Intersect(tile->regions[step.layer], rows);
    if (part.empty()) continue;
    const int begin = FloorDiv(part.x - rows.x, unit_px) * unit_px;
    const int end = std::min(RoundUp(part.right() - rows.x, unit_px), rows.width);
    runs_.push_back({rows.x + begin, rows.y, end - begin, rows.height});
  }
  std::ranges::sort(runs_, {}, &Rect::x);
  size_t count = 0;
  for (const Rect& run : runs_) {
    if (count > 0 && run.x <= runs_[count - 1].right()) {
      Rect& last = runs_[count - 1];
      last.width = std::max(last.right(), run.right()) - last.x;
    } else {
      runs_[count++] = run;
    }
  }
  runs_.resize(count);
  return runs_;
}

int64_t CpuRowStream::CostOf(const RowSchedule::Step& step) {
  int64_t px = 0;
  for (const Rect& run : RunsOf(step)) px += Intersect(run, plan_.regions[step.layer]).Area();
  return static_cast<int64_t>(
      MultiplyAdds(program_.network.layers[step.layer], static_cast<double>(px)));
}

std::vector<Rect> CpuRowStream::CutToParts(std::vector<Rect> runs) const {
  if (parts_ == nullptr) return runs;
  std::vector<Rect> cut;
  for (const Rect& run : runs) {
    for (const auto& tile : parts_->tiles) {
      const Rect part = Intersect(run, Scale(tile->tile, program_.network.scale));
      if (!part.empty()) cut.push_back(part);
    }
  }
  return cut;
}

int64_t CpuRowStream::PlanSlice(int bottom, int64_t max_cost, const RowParts* parts) {
  if (written_ >= bottom) return 0;
  parts_ = parts;
  int64_t cost = 0;
  int computed = computed_;
  slice_end_ = cursor_.next;
  while (computed < bottom) {
    const RowSchedule::Step& step = schedule_.steps[slice_end_];
    const int64_t step_cost = CostOf(step);
    if (slice_end_ > cursor_.next && cost + step_cost > max_cost) break;
    cost += step_cost;
    ++slice_end_;
    if (step.layer == schedule_.target) computed = step.rows.bottom();
  }
  return std::max<int64_t>(cost, 1);
}

size_t CpuRowStream::EndOfNextRows() const {
  size_t end = cursor_.next + 1;
  while (end < slice_end_ && schedule_.steps[end - 1].layer != schedule_.target) ++end;
  return end;
}

absl::Status CpuRowStream::Run(const TileTask& task, Team& team, ReplaceRuns replace) {
  if (rings_.size() == 0) {
    rings_.Reserve(schedule_.workspace_floats);
    BindWorkspace(program_, rings_.data(), /*cache=*/nullptr, schedule_);
  }
  std::vector<Rect> overflowed;
  const auto replace_overflowed = [&] {
    const std::vector<Rect> runs = CutToParts(std::exchange(overflowed, {}));
    return runs.empty() ? absl::OkStatus() : replace(runs);
  };
  const Rect& result = plan_.regions.back();
  if (written_ < computed_) {
    const Rect waiting{result.x, written_, result.width, computed_ - written_};
    StoreRows(program_, task, schedule_, waiting, overflowed);
  }
  const auto runs_of = [this](const RowSchedule::Step& step) { return RunsOf(step); };
  while (cursor_.next < slice_end_) {
    if (!RunSteps(program_, task, schedule_, EndOfNextRows(), rings_.data(), team, runs_of, cursor_,
                  overflowed)) {
      return absl::OkStatus();
    }
    const RowSchedule::Step& last = schedule_.steps[cursor_.next - 1];
    if (last.layer == schedule_.target) computed_ = last.rows.bottom();
    if (overflowed.size() > kMaxOverflowedRuns) RETURN_IF_ERROR(replace_overflowed());
  }
  written_ = std::min(computed_, task.plan->tile.bottom() * program_.network.scale);
  return replace_overflowed();
}

}  // namespace upscaled::cpu
