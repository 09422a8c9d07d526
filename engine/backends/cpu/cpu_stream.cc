#include "engine/backends/cpu/cpu_stream.h"

#include <sched.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "engine/backends/cpu/cpu_executable.h"
#include "engine/backends/cpu/cpu_row_stream.h"
#include "engine/backends/cpu/denormals.h"
#include "engine/backends/cpu/run_tile.h"
#include "engine/backends/layer_profile.h"
#include "engine/backends/overflow.h"
#include "engine/base/status_macros.h"

namespace upscaled::cpu {
namespace {

// The multiply-adds of a tile that is worth waking a thread for: it takes a millisecond.
constexpr int64_t kMinSharedMacs = 50'000'000;

void IgnoreStep(const RowSchedule::Step& /*step*/) {}

absl::Status NoMemory(const Rect& tile) {
  return absl::ResourceExhaustedError(
      absl::StrCat("no memory for a tile of ", tile.width, "x", tile.height, " pixels"));
}

}  // namespace

absl::Status CpuStream::Run(const Executable& executable, std::span<const TileTask> tiles) {
  const auto& compiled = static_cast<const CpuExecutable&>(executable);
  const FlushDenormals flush;
  helped_ = {};
  for (const TileTask& task : tiles) {
    RETURN_IF_ERROR(CheckTileTask(executable, task));
    try {
      RETURN_IF_ERROR(RunTask(compiled, task));
    } catch (const std::bad_alloc&) {
      return NoMemory(task.plan->tile);
    }
  }
  return absl::OkStatus();
}

absl::Status CpuStream::RunTask(const CpuExecutable& executable, const TileTask& task) {
  const Program& program = executable.program();
  const Program* const exact = executable.exact_program();
  const size_t scratch_floats =
      std::max(program.scratch_floats, exact != nullptr ? exact->scratch_floats : 0);
  const int most_threads = CostOf(task) < kMinSharedMacs ? 1 : std::numeric_limits<int>::max();
  Team team(*helpers_, sched_getcpu(), scratch_floats, most_threads);
  absl::Status status;
  if (task.slice.stream != nullptr) {
    auto& stream = static_cast<CpuRowStream&>(*task.slice.stream);
    status = stream.Run(task, team, [&](std::span<const Rect> runs) {
      return RunExactlyInTiles(executable, task, team, runs);
    });
  } else {
    status = RunWhole(executable, task, team);
  }
  helped_ += team.Dissolve();
  return status;
}

absl::Status CpuStream::RunWhole(const CpuExecutable& executable, const TileTask& task,
                                 Team& team) {
  const std::vector<Rect> overflowed =
      RunTile(executable.program(), task, workspace_, team, IgnoreStep);
  if (overflowed.empty()) return absl::OkStatus();
  if (overflowed.size() > kMaxOverflowedRuns && task.plan->tile.Area() > 1) {
    return RunInQuarters(executable, task, team);
  }
  return RunExactly(*executable.exact_program(), task, team, overflowed);
}

absl::Status CpuStream::RunInQuarters(const CpuExecutable& executable, const TileTask& task,
                                      Team& team) {
  const Rect& tile = task.plan->tile;
  const int scale = executable.network().scale;
  const Size step{CeilDiv(tile.width, 2), CeilDiv(tile.height, 2)};
  std::optional<ChannelSums> total;
  for (int y = tile.y; y < tile.bottom(); y += step.height) {
    for (int x = tile.x; x < tile.right(); x += step.width) {
      const Rect quarter = Intersect({x, y, step.width, step.height}, tile);
      ChannelSums sums;
      PoolingPass pass{.means = task.pooling->means};
      TileTask part = task;
      part.plan = std::make_shared<const TilePlan>(executable.Plan(quarter, task.plan->image));
      if (task.pooling->gathers()) {
        pass.partial_sums = &sums;
      } else {
        part.dst = task.dst.Crop(Scale(Shift(quarter, -tile.x, -tile.y), scale));
      }
      part.pooling = &pass;
      RETURN_IF_ERROR(RunWhole(executable, part, team));
      if (!task.pooling->gathers()) continue;
      if (total) {
        total->Add(sums);
      } else {
        total = std::move(sums);
      }
    }
  }
  if (total) *task.pooling->partial_sums = *std::move(total);
  return absl::OkStatus();
}

absl::Status CpuStream::RunExactlyInTiles(const CpuExecutable& executable, const TileTask& task,
                                          Team& team, std::span<const Rect> runs) {
  const Size tile = executable.PreferredTile();
  const int scale = executable.network().scale;
  const int width = tile.width * scale, height = tile.height * scale;
  std::map<std::pair<int, int>, std::vector<Rect>> tiles;  // by row and column
  for (const Rect& run : runs) {
    for (int column = run.x / width; column * width < run.right(); ++column) {
      const Rect part = Intersect(run, {column * width, run.y, width, 1});
      tiles[{run.y / height, column}].push_back(part);
    }
  }
  for (const auto& [place, parts] : tiles) {
    RETURN_IF_ERROR(RunExactly(*executable.exact_program(), task, team, parts));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<LayerProfile>> CpuStream::Profile(const Executable& executable,
                                                             const TileTask& task) try {
  RETURN_IF_ERROR(CheckTileTask(executable, task));
  const auto& compiled = static_cast<const CpuExecutable&>(executable);
  const Program& program = compiled.program();
  std::vector<LayerProfile> layers;
  for (size_t i = 0; i < program.network.layers.size(); ++i) {
    const size_t value_bytes = program.steps[i].half ? sizeof(uint16_t) : sizeof(float);
    LayerProfile& layer =
        layers.emplace_back(DescribeLayer(program.network, i, task.plan->regions, value_bytes));
    const KernelEntry* const kernel = program.steps[i].kernel_entry;
    layer.kernel = program.steps[i].IsView() ? "view" : kernel == nullptr ? "load" : kernel->name;
    // The multiplications of a prelude belong to it, not to the layer that adds them up.
    if (kernel != nullptr && kernel->prelude != nullptr) layer.operations = 0;
  }
  absl::Time last = absl::Now();
  const FlushDenormals flush;
  Team alone;
  RunTile(program, task, workspace_, alone, [&](const RowSchedule::Step& step) {
    const absl::Time now = absl::Now();
    layers[step.layer].seconds += absl::ToDoubleSeconds(now - last);
    last = now;
  });
  return layers;
} catch (const std::bad_alloc&) {
  return NoMemory(task.plan->tile);
}

absl::Status CpuStream::RunExactly(const Program& program, const TileTask& task, Team& team,
                                   std::span<const Rect> runs) {
  if (task.pooling->gathers()) {
    AddExactly(program, task, team, runs);
    return absl::OkStatus();
  }
  const auto plan = [&](const Rect& tile) { return PlanTile(program, task.plan->image, tile); };
  const auto compute = [&](TilePlan planned, const MutableImageView& dst) {
    TileTask part = task;
    part.plan = std::make_shared<const TilePlan>(std::move(planned));
    part.dst = dst;
    RunTile(program, part, workspace_, team, IgnoreStep);
    return absl::OkStatus();
  };
  return ReplaceOverflowed(runs, program.network.scale, task.plan->tile, task.dst, {plan, compute});
}

void CpuStream::AddExactly(const Program& program, const TileTask& task, Team& team,
                           std::span<const Rect> runs) {
  ChannelSums sums;
  const PoolingPass pass{.means = task.pooling->means, .partial_sums = &sums};
  TileTask exact = task;
  exact.plan =
      std::make_shared<const TilePlan>(PlanTile(program, task.plan->image, task.plan->tile));
  exact.pooling = &pass;
  RunTile(program, exact, workspace_, team, IgnoreStep, runs);
  task.pooling->partial_sums->Add(sums);
}

}  // namespace upscaled::cpu
