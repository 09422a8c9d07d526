#include "engine/backends/cpu/run_tile.h"

#include <algorithm>
#include <vector>

#include "engine/backends/cpu/kernels/activation.h"
#include "engine/backends/cpu/pixels.h"
#include "engine/backends/cpu/pooling.h"
#include "engine/backends/cpu/workspace_layout.h"

namespace upscaled::cpu {
namespace {

// The pass's activation cache, if it can go on with it.
CachedLayers* CacheOf(const Program& program, const PoolingPass& pass) {
  const bool usable = pass.cache != nullptr && pass.cache->Begin(&program, pass.number(), 0);
  return usable ? static_cast<CachedLayers*>(pass.cache) : nullptr;
}

class TileRunner {
 public:
  TileRunner(const Program& program, const TileTask& task, const RowSchedule& schedule,
             float* scratch, std::span<const Rect> counted)
      : program_(program), task_(task), schedule_(schedule), scratch_(scratch), counted_(counted) {}

  // Whether it came to the end: not where the task was cancelled between two stages.
  bool Run(absl::FunctionRef<void(const RowSchedule::Step&)> step_done) {
    size_t stage = schedule_.first_stage;
    BeginStage(program_, schedule_, stage);
    for (const RowSchedule::Step& step : schedule_.steps) {
      while (stage < schedule_.StageOf(program_, step.layer)) {
        if (task_.cancellation != nullptr && task_.cancellation->IsCancelled()) return false;
        BeginStage(program_, schedule_, ++stage);
      }
      RunStep(step);
      step_done(step);
    }
    return true;
  }

  const std::vector<Rect>& overflowed() const { return overflowed_; }

 private:
  void RunStep(const RowSchedule::Step& step) {
    Compute(step);
    if (step.layer != schedule_.target) return;
    const Tensor& dst = schedule_.tensors[step.layer];
    if (!pass_.gathers()) {
      const Rect result = Scale(task_.plan->tile, program_.network.scale);
      StorePixels(program_.sample_conversions, dst, step.rows, result, task_.dst);
      if (program_.precision == Precision::kFast) {
        FindOverflowed(dst, Intersect(step.rows, result), overflowed_);
      }
    } else {
      AddPart(dst, Intersect(step.rows, summed_));
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

  void Compute(const RowSchedule::Step& step) {
    const Layer& layer = program_.network.layers[step.layer];
    const Tensor& dst = schedule_.tensors[step.layer];
    if (step.layer == 0) {
      LoadPixels(program_.sample_conversions, task_, program_.network.pad_px, step.rows, dst);
    } else if (layer.op == Op::kGlobalAveragePool) {
      const auto number = std::find(program_.poolings.begin(), program_.poolings.end(), step.layer);
      LoadMeans(pass_.means[number - program_.poolings.begin()], dst);
      ApplyActivation(layer, program_.curve, dst, 0, 0, 1);
    } else {
      src_.clear();
      for (const int input : layer.inputs) src_.push_back(schedule_.tensors[input]);
      program_.kernels[step.layer]->Run(src_, dst, step.rows, scratch_);
    }
  }

  const Program& program_;
  const TileTask& task_;
  const RowSchedule& schedule_;
  float* const scratch_;
  const std::span<const Rect> counted_;
  const PoolingPass& pass_ = *task_.pooling;
  const Rect summed_ = pass_.gathers() ? task_.plan->partial_sum_rects[pass_.number()] : Rect();
  std::vector<Tensor> src_;
  std::vector<Rect> overflowed_;
};

}  // namespace

std::vector<Rect> RunTile(const Program& program, const TileTask& task, HugeBuffer& workspace,
                          absl::FunctionRef<void(const RowSchedule::Step&)> step_done,
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
    TileRunner runner(program, task, strip, workspace.data(), counted);
    if (!runner.Run(step_done)) return {};
    overflowed.insert(overflowed.end(), runner.overflowed().begin(), runner.overflowed().end());
  }
  if (cache != nullptr) cache->End(pass.number());
  return overflowed;
}

}  // namespace upscaled::cpu
