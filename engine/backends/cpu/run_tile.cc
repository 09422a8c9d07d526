#include "engine/backends/cpu/run_tile.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "engine/backends/cpu/kernels/activation.h"
#include "engine/backends/cpu/pixels.h"
#include "engine/backends/cpu/pooling.h"

namespace upscaled::cpu {
namespace {

// The task's memory, if all runs before this one went into it.
CachedLayers* MemoryOf(const TileTask& task) {
  auto* const memory = static_cast<CachedLayers*>(task.memory);
  return memory != nullptr && memory->runs == task.means.size() ? memory : nullptr;
}

class TileRunner {
 public:
  TileRunner(const Program& program, const TileTask& task, const TilePlan& plan, float* scratch)
      : program_(program), task_(task), plan_(plan), scratch_(scratch) {}

  void Run(const TilePlan::Step& step) {
    Compute(step);
    if (step.layer != plan_.target) return;
    const Tensor& dst = plan_.tensors[step.layer];
    if (task_.sums == nullptr) {
      const Rect result = Scale(task_.tile, program_.network.scale);
      StorePixels(program_.sample_conversions, dst, step.rows, result, task_.dst);
      if (program_.precision == Precision::kFast) {
        FindOverflowed(dst, Intersect(step.rows, result), lost_);
      }
    } else {
      AddToSums(dst, Intersect(step.rows, share_), *task_.sums);
    }
  }

  std::vector<Rect> TakeOverflowed() { return std::move(lost_); }

 private:
  void Compute(const TilePlan::Step& step) {
    const Layer& layer = program_.network.layers[step.layer];
    const Tensor& dst = plan_.tensors[step.layer];
    if (step.layer == 0) {
      LoadPixels(program_.sample_conversions, task_, program_.network.pad_px, step.rows, dst);
    } else if (layer.op == Op::kGlobalAveragePool) {
      const auto number = std::find(program_.poolings.begin(), program_.poolings.end(), step.layer);
      LoadMeans(task_.means[number - program_.poolings.begin()], dst);
      ApplyActivation(layer, dst, 0, 0, 1);
    } else {
      src_.clear();
      for (const int input : layer.inputs) src_.push_back(plan_.tensors[input]);
      program_.kernels[step.layer]->Run(src_, dst, step.rows, scratch_);
    }
  }

  const Program& program_;
  const TileTask& task_;
  const TilePlan& plan_;
  float* const scratch_;
  const Rect share_ = task_.sums == nullptr
                          ? Rect()
                          : PooledShare(program_.network, program_.poolings[task_.means.size()],
                                        task_.image, task_.tile);
  std::vector<Tensor> src_;
  std::vector<Rect> lost_;
};

}  // namespace

std::vector<Rect> RunTile(const Program& program, const TileTask& task, HugeBuffer& workspace,
                          absl::FunctionRef<void(const TilePlan::Step&)> step_done) {
  CachedLayers* const memory = MemoryOf(task);
  TilePlan plan =
      PlanTile(program, task.image, task.tile, task.means.size(), /*keeps=*/memory != nullptr);
  workspace.Reserve(plan.workspace_floats);
  if (memory != nullptr) memory->floats.Reserve(plan.memory_floats);
  BindWorkspace(program, workspace.data(), plan, memory ? memory->floats.data() : nullptr);
  if (task.sums != nullptr) *task.sums = ChannelSums(plan.tensors[plan.target].channels);
  TileRunner runner(program, task, plan, workspace.data());
  for (const TilePlan::Step& step : plan.steps) {
    runner.Run(step);
    step_done(step);
  }
  if (memory != nullptr) ++memory->runs;
  return runner.TakeOverflowed();
}

}  // namespace upscaled::cpu
