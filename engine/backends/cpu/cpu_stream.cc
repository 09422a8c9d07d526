#include "engine/backends/cpu/cpu_stream.h"

#include <array>
#include <new>

#include "absl/strings/str_cat.h"
#include "engine/backends/cpu/pixels.h"
#include "engine/base/status_macros.h"

namespace upscaled::cpu {

absl::Status CpuStream::Run(const Executable& executable, std::span<const TileTask> tiles) {
  const Program& program = static_cast<const CpuExecutable&>(executable).program();
  for (const TileTask& task : tiles) {
    RETURN_IF_ERROR(CheckTileTask(executable, task));
    try {
      RunTile(program, task);
    } catch (const std::bad_alloc&) {
      return absl::ResourceExhaustedError(absl::StrCat("no memory for a tile of ", task.tile.width,
                                                       "x", task.tile.height, " pixels"));
    }
  }
  return absl::OkStatus();
}

void CpuStream::RunTile(const Program& program, const TileTask& task) {
  TilePlan plan = PlanTile(program, task.image, task.tile);
  workspace_.Reserve(plan.workspace_floats);
  BindWorkspace(program, workspace_.data(), plan);
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
      program.kernels[step.layer]->Run(src, dst, step.rows, workspace_.data());
    }
    if (step.layer == last) StorePixels(dst, step.rows, result, task.dst);
  }
}

}  // namespace upscaled::cpu
