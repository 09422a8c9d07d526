#include "engine/backends/cpu/run_tile.h"

#include <vector>

#include "engine/backends/cpu/pixels.h"

namespace upscaled::cpu {

void RunTile(const Program& program, const TileTask& task, HugeBuffer& workspace,
             absl::FunctionRef<void(const TilePlan::Step&)> step_done) {
  TilePlan plan = PlanTile(program, task.image, task.tile);
  workspace.Reserve(plan.workspace_floats);
  BindWorkspace(program, workspace.data(), plan);
  const Rect result = Scale(task.tile, program.network.scale);
  const int last = static_cast<int>(plan.tensors.size()) - 1;
  std::vector<Tensor> src;
  for (const TilePlan::Step& step : plan.steps) {
    const Tensor& dst = plan.tensors[step.layer];
    if (step.layer == 0) {
      LoadPixels(task, program.network.pad_px, step.rows, dst);
    } else {
      src.clear();
      for (const int input : program.network.layers[step.layer].inputs) {
        src.push_back(plan.tensors[input]);
      }
      program.kernels[step.layer]->Run(src, dst, step.rows, workspace.data());
    }
    if (step.layer == last) StorePixels(dst, step.rows, result, task.dst);
    step_done(step);
  }
}

}  // namespace upscaled::cpu
