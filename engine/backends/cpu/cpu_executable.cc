#include "engine/backends/cpu/cpu_executable.h"

#include <utility>

#include "engine/backends/cpu/kernels/activation.h"
#include "engine/backends/cpu/tile_plan.h"
#include "engine/base/status_macros.h"
#include "engine/graph/tile_geometry.h"
#include "engine/model/limits.h"

namespace upscaled::cpu {
namespace {

Network DropWeights(const Network& network) {
  Network copy = network;
  for (Layer& layer : copy.layers) layer = WithoutWeights(layer);
  return copy;
}

}  // namespace

CpuExecutable::CpuExecutable(Network network, Program program)
    : network_(std::move(network)), program_(std::move(program)), preferred_tile_{480, 270} {}

absl::StatusOr<std::shared_ptr<const Executable>> CpuExecutable::Create(
    const Network& network, Isa isa, const KernelInfo* forced_kernel) {
  RETURN_IF_ERROR(network.Validate());
  ASSIGN_OR_RETURN(Program program, BuildProgram(network, isa, forced_kernel));
  return std::shared_ptr<const Executable>(
      new CpuExecutable(DropWeights(network), std::move(program)));
}

Rect CpuExecutable::InputRect(const Rect& tile, Size image) const {
  const std::vector<Rect> regions = LayerRegions(program_.network, image, tile, program_.block_px);
  return SourceRect(program_.network, regions[0], image);
}

size_t CpuExecutable::WorkspaceBytes(Size tile) const {
  // In the middle of a large picture, and a period larger than asked: a tile's regions depend on
  // how it lies to the blocks.
  const int border = 4096;
  const Rect inner{border, border, tile.width + kMaxPeriodPx, tile.height + kMaxPeriodPx};
  const Size image{inner.right() + border, inner.bottom() + border};
  return PlanTile(program_, image, inner).workspace_floats * sizeof(float);
}

}  // namespace upscaled::cpu
