#include "engine/backends/cpu/cpu_stream.h"

#include <algorithm>
#include <cstdint>
#include <new>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "engine/backends/cpu/cpu_executable.h"
#include "engine/backends/cpu/run_tile.h"
#include "engine/backends/layer_profile.h"
#include "engine/base/status_macros.h"
#include "engine/graph/tile_geometry.h"

namespace upscaled::cpu {
namespace {

constexpr int kRgb = 3;

Rect RelativeTo(const Rect& rect, const Rect& origin) {
  return {rect.x - origin.x, rect.y - origin.y, rect.width, rect.height};
}

void IgnoreStep(const TilePlan::Step& /*step*/) {}

absl::Status NoMemory(const Rect& tile) {
  return absl::ResourceExhaustedError(
      absl::StrCat("no memory for a tile of ", tile.width, "x", tile.height, " pixels"));
}

}  // namespace

absl::Status CpuStream::Run(const Executable& executable, std::span<const TileTask> tiles) {
  const auto& compiled = static_cast<const CpuExecutable&>(executable);
  for (const TileTask& task : tiles) {
    RETURN_IF_ERROR(CheckTileTask(executable, task));
    try {
      const std::vector<Rect> lost = RunTile(compiled.program(), task, workspace_, IgnoreStep);
      if (!lost.empty()) RunExactly(*compiled.exact_program(), task, lost);
    } catch (const std::bad_alloc&) {
      return NoMemory(task.tile);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<LayerProfile>> CpuStream::Profile(const Executable& executable,
                                                             const TileTask& task) try {
  RETURN_IF_ERROR(CheckTileTask(executable, task));
  const Program& program = static_cast<const CpuExecutable&>(executable).program();
  const std::vector<Rect> regions = LayerRegions(program.network, task.image, task.tile, {});
  std::vector<LayerProfile> layers;
  for (size_t i = 0; i < program.network.layers.size(); ++i) {
    const size_t value_bytes = program.half[i] ? sizeof(uint16_t) : sizeof(float);
    LayerProfile& layer =
        layers.emplace_back(DescribeLayer(program.network, i, regions, value_bytes));
    const KernelInfo* const kernel = program.kernel_infos[i];
    layer.kernel = kernel == nullptr ? "load" : kernel->name;
    // What a prelude multiplies belongs to it, not to the layer that adds it up.
    if (kernel != nullptr && kernel->prelude != nullptr) layer.operations = 0;
  }
  absl::Time last = absl::Now();
  RunTile(program, task, workspace_, [&](const TilePlan::Step& step) {
    const absl::Time now = absl::Now();
    layers[step.layer].seconds += absl::ToDoubleSeconds(now - last);
    last = now;
  });
  return layers;
} catch (const std::bad_alloc&) {
  return NoMemory(task.tile);
}

void CpuStream::RunExactly(const Program& program, const TileTask& task,
                           std::span<const Rect> runs) {
  const int scale = program.network.scale;
  Rect pixels;
  for (const Rect& run : runs) pixels = Cover(pixels, run);
  TileTask part = task;
  part.tile = {pixels.x / scale, pixels.y / scale, 0, 0};
  part.tile.width = (pixels.right() + scale - 1) / scale - part.tile.x;
  part.tile.height = (pixels.bottom() + scale - 1) / scale - part.tile.y;
  const Rect whole = Scale(task.tile, scale), computed = Scale(part.tile, scale);
  Image result({computed.width, computed.height, kRgb, task.dst.spec.type});
  part.dst = result.mutable_view();
  RunTile(program, part, workspace_, IgnoreStep);
  const size_t sample_bytes = SampleBytes(task.dst.spec.type);
  for (const Rect& run : runs) {
    const uint8_t* src = result.view().Crop(RelativeTo(run, computed)).data;
    uint8_t* dst = task.dst.Crop(RelativeTo(run, whole)).data;
    for (int x = 0; x < run.width; ++x) {
      std::copy_n(src, kRgb * sample_bytes, dst);
      src += result.spec().pixel_bytes();
      dst += task.dst.spec.pixel_bytes();
    }
  }
}

}  // namespace upscaled::cpu
