#include "engine/backends/cpu/run_tile.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "engine/backends/cpu/kernels/activation.h"
#include "engine/backends/cpu/pixels.h"
#include "engine/backends/cpu/pooling.h"
#include "engine/backends/cpu/workspace_layout.h"
#include "engine/base/int_math.h"
#include "engine/model/shapes.h"

namespace upscaled::cpu {
namespace {

std::span<const Rect> AllOf(const RowSchedule::Step& step) { return {&step.rows, 1}; }

// The pass's activation cache, if it can go on with it.
CachedLayers* CacheOf(const Program& program, const PoolingPass& pass) {
  const bool usable = pass.cache != nullptr && pass.cache->Begin(&program, pass.number(), 0);
  return usable ? static_cast<CachedLayers*>(pass.cache) : nullptr;
}

class TileRunner {
 public:
  TileRunner(const Program& program, const TileTask& task, const RowSchedule& schedule,
             float* scratch, Team& team, size_t max_overflowed, std::span<const Rect> counted)
      : program_(program),
        task_(task),
        schedule_(schedule),
        scratch_(scratch),
        team_(team),
        max_overflowed_(max_overflowed),
        counted_(counted) {}

  // Whether it came to step number `end`: not if the task was cancelled before one, or more runs
  // have overflowed.
  bool Run(StepCursor& cursor, size_t end, RunsOfStep runs_of,
           absl::FunctionRef<void(const RowSchedule::Step&)> step_done) {
    if (cursor.next == 0) {
      cursor.stage = schedule_.first_stage;
      BeginStage(program_, schedule_, cursor.stage);
    }
    for (; cursor.next < end; ++cursor.next) {
      if (task_.cancellation != nullptr && task_.cancellation->IsCancelled()) return false;
      const RowSchedule::Step& step = schedule_.steps[cursor.next];
      while (cursor.stage < schedule_.StageOf(program_, step.layer)) {
        BeginStage(program_, schedule_, ++cursor.stage);
      }
      RunStep(step, runs_of(step));
      step_done(step);
      if (overflowed_.size() > max_overflowed_) return false;
    }
    return true;
  }

  const std::vector<Rect>& overflowed() const { return overflowed_; }

 private:
  void RunStep(const RowSchedule::Step& step, std::span<const Rect> runs) {
    const int unit_px = UnitPx(program_, step.layer);
    int units = 0;
    for (const Rect& run : runs) units += CeilDiv(run.width, unit_px);
    if (units == 0) return;
    src_.clear();
    for (const int input : program_.network.layers[step.layer].inputs) {
      src_.push_back(schedule_.tensors[input]);
    }
    team_.Run(units, most_threads_, scratch_, [&](int begin, int end, float* scratch) {
      int first = 0;  // unit of the run
      for (const Rect& run : runs) {
        const Rect taken{run.x + (begin - first) * unit_px, run.y, (end - begin) * unit_px,
                         run.height};
        const Rect rows = Intersect(taken, run);
        if (!rows.empty()) Compute(step.layer, rows, scratch);
        first += CeilDiv(run.width, unit_px);
      }
    });
    if (step.layer != schedule_.target) return;
    const Tensor& dst = schedule_.tensors[step.layer];
    for (const Rect& run : runs) {
      if (pass_.gathers()) {
        AddPart(dst, Intersect(run, summed_));
      } else if (program_.precision == Precision::kFast) {
        FindOverflowed(dst, Intersect(run, result_), overflowed_);
      }
    }
  }

  // Adds up what of `part` is counted: of precision kFast what is finite.
  void AddPart(const Tensor& src, const Rect& part) {
    const auto add = [&](const Rect& rect) {
      if (!rect.empty()) AddToSums(program_.pooled_sums, src, rect, *pass_.partial_sums);
    };
    for (const Rect& rect : counted_) add(Intersect(rect, part));
    if (!counted_.empty()) return;
    if (program_.precision == Precision::kExact) return add(part);
    for (int y = part.y; y < part.bottom(); ++y) {
      const size_t first_run = overflowed_.size();
      FindNonFinite(src, {part.x, y, part.width, 1}, overflowed_);
      int x = part.x;
      for (size_t i = first_run; i < overflowed_.size(); ++i) {
        add({x, y, overflowed_[i].x - x, 1});
        x = overflowed_[i].right();
      }
      add({x, y, part.right() - x, 1});
    }
  }

  // Computes these of a step's rows, and stores them where they are of the result. Several threads
  // do, with columns and scratch memory of their own.
  void Compute(int layer_index, const Rect& rows, float* scratch) const {
    const Layer& layer = program_.network.layers[layer_index];
    const Tensor& dst = schedule_.tensors[layer_index];
    if (layer_index == 0) {
      LoadPixels(program_.sample_conversions, task_, program_.network.pad_px, rows, dst);
    } else if (layer.op == Op::kGlobalAveragePool) {
      const auto number = std::ranges::find(program_.poolings, layer_index);
      LoadMeans(pass_.means[number - program_.poolings.begin()], dst);
      ApplyActivation(layer, program_.curve, dst, 0, 0, 1);
    } else {
      program_.steps[layer_index].kernel->Run(src_, dst, rows, scratch);
    }
    if (layer_index == schedule_.target && !pass_.gathers()) {
      StorePixels(program_.sample_conversions, dst, rows, result_, task_.dst);
    }
  }

  const Program& program_;
  const TileTask& task_;
  const RowSchedule& schedule_;
  float* const scratch_;
  Team& team_;
  const size_t max_overflowed_;
  const std::span<const Rect> counted_;
  const int most_threads_ = PartCount(task_.plan->tile.width, kMinSharePx);
  const PoolingPass& pass_ = *task_.pooling;
  const Rect summed_ = pass_.gathers() ? task_.plan->partial_sum_rects[pass_.number()] : Rect();
  const Rect result_ = Scale(task_.plan->tile, program_.network.scale);
  std::vector<Tensor> src_;  // the step's
  std::vector<Rect> overflowed_;
};

}  // namespace

int UnitPx(const Program& program, int layer) {
  constexpr int kPx = 16, kBlocks = 2;
  const Layer& of = program.network.layers[layer];
  if (IsOneStep(of)) return kMaxSidePx;
  if (of.op == Op::kWindowAttention) return RoundUp(kPx, of.window_x.window_px);
  const int block_px = program.steps[layer].block_px;
  return block_px == 1 ? kPx : block_px * kBlocks;
}

bool RunSteps(const Program& program, const TileTask& task, const RowSchedule& schedule, size_t end,
              float* scratch, Team& team, RunsOfStep runs_of, StepCursor& cursor,
              std::vector<Rect>& overflowed) {
  constexpr size_t kAnyNumber = std::numeric_limits<size_t>::max();  // the caller bounds the steps
  TileRunner runner(program, task, schedule, scratch, team, kAnyNumber, /*counted=*/{});
  const bool ended = runner.Run(cursor, end, runs_of, [](const RowSchedule::Step&) {});
  overflowed.insert(overflowed.end(), runner.overflowed().begin(), runner.overflowed().end());
  return ended;
}

void StoreRows(const Program& program, const TileTask& task, const RowSchedule& schedule,
               const Rect& rows, std::vector<Rect>& overflowed) {
  const Tensor& target = schedule.tensors[schedule.target];
  const Rect result = Scale(task.plan->tile, program.network.scale);
  StorePixels(program.sample_conversions, target, rows, result, task.dst);
  if (program.precision == Precision::kFast) {
    FindOverflowed(target, Intersect(rows, result), overflowed);
  }
}

std::vector<Rect> RunTile(const Program& program, const TileTask& task, HugeBuffer& workspace,
                          Team& team, absl::FunctionRef<void(const RowSchedule::Step&)> step_done,
                          std::span<const Rect> counted) {
  const TilePlan& plan = *task.plan;
  const PoolingPass& pass = *task.pooling;
  CachedLayers* const cache = CacheOf(program, pass);
  std::vector<RowSchedule> strips;
  float* kept = nullptr;
  if (cache != nullptr) {
    strips = ScheduleStrips(program, plan, pass.number());
    kept = cache->Reserve(strips.front().cached_floats);
  } else {
    strips.push_back(ScheduleRows(program, plan, pass.number()));
  }
  if (pass.gathers()) {
    const RowSchedule& first = strips.front();
    *pass.partial_sums = ChannelSums(first.tensors[first.target].channels);
  }
  std::vector<Rect> overflowed;
  for (RowSchedule& strip : strips) {
    workspace.Reserve(strip.workspace_floats);
    BindWorkspace(program, workspace.data(), kept, strip);
    TileRunner runner(program, task, strip, workspace.data(), team, kMaxOverflowedRuns, counted);
    StepCursor cursor;
    const bool ended = runner.Run(cursor, strip.steps.size(), AllOf, step_done);
    overflowed.insert(overflowed.end(), runner.overflowed().begin(), runner.overflowed().end());
    if (overflowed.size() > kMaxOverflowedRuns) return overflowed;
    if (!ended) return {};
  }
  if (cache != nullptr) cache->End(pass.number());
  return overflowed;
}

}  // namespace upscaled::cpu
