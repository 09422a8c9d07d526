#include "engine/backends/cpu/cpu_row_stream.h"

#include <algorithm>
#include <utility>

#include "engine/backends/cpu/workspace_layout.h"
#include "engine/base/check.h"
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
  const RowSchedule schedule = ScheduleRows(program, plan);
  return {.bytes = HugeBuffer::BytesFor(schedule.workspace_floats) +
                   schedule.steps.capacity() * sizeof(RowSchedule::Step) + plan.bytes() +
                   schedule.tensors.size() * (sizeof(Tensor) + sizeof(size_t) + sizeof(int)),
          .scratch_bytes = program.scratch_floats * sizeof(float),
          .sees_all = schedule.staged};
}

int64_t CpuRowStream::CostOf(const RowSchedule::Step& step) const {
  const Rect rows = Intersect(step.rows, plan_.regions[step.layer]);
  return static_cast<int64_t>(
      MultiplyAdds(program_.network.layers[step.layer], static_cast<double>(rows.Area())));
}

int64_t CpuRowStream::PlanSlice(int bottom, int64_t max_cost) {
  if (written_ >= bottom) return 0;
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

std::vector<Rect> CpuRowStream::Run(const TileTask& task, Team& team) {
  if (rings_.size() == 0) {
    rings_.Reserve(schedule_.workspace_floats);
    BindWorkspace(program_, rings_.data(), /*cache=*/nullptr, schedule_);
  }
  std::vector<Rect> overflowed;
  const Rect& result = plan_.regions.back();
  if (written_ < computed_) {
    const Rect waiting{result.x, written_, result.width, computed_ - written_};
    StoreRows(program_, task, schedule_, waiting, overflowed);
  }
  const size_t begin = cursor_.next;
  if (!RunSteps(program_, task, schedule_, slice_end_, rings_.data(), team, cursor_, overflowed)) {
    return {};
  }
  for (size_t i = begin; i < slice_end_; ++i) {
    const RowSchedule::Step& step = schedule_.steps[i];
    if (step.layer == schedule_.target) computed_ = step.rows.bottom();
  }
  written_ = std::min(computed_, task.plan->tile.bottom() * program_.network.scale);
  return overflowed;
}

}  // namespace upscaled::cpu
