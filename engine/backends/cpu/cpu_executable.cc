#include "engine/backends/cpu/cpu_executable.h"

#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/backends/cpu/kernels/activation.h"
#include "engine/backends/cpu/tile_plan.h"
#include "engine/base/status_macros.h"
#include "engine/graph/tile_geometry.h"
#include "engine/model/limits.h"

namespace upscaled::cpu {
namespace {

Network DropWeights(const Network& network) {
  Network copy;
  copy.name = network.name;
  copy.scale = network.scale;
  copy.pad_px = network.pad_px;
  copy.align_px = network.align_px;
  for (const Layer& layer : network.layers) copy.layers.push_back(WithoutWeights(layer));
  return copy;
}

// A tile of this size with other tiles all around it, and how it lies in its picture.
struct InnerTile {
  explicit InnerTile(Size size)
      : rect{kBorderPx, kBorderPx, size.width, size.height},
        image{size.width + 2 * kBorderPx, size.height + 2 * kBorderPx} {}

  // Beyond what any network in use reads around a tile; a multiple of all block sizes and periods.
  static constexpr int kBorderPx = 64 * 6 * 12;
  Rect rect;
  Size image;
};

size_t WorkspaceOf(const Program& program, const InnerTile& tile) {
  return PlanTile(program, tile.image, tile.rect).workspace_floats * sizeof(float);
}

// Multiply-adds of the direct algorithm for one tile, with what it computes around it.
double TileMacs(const Program& program, const InnerTile& tile) {
  const std::vector<Rect> regions =
      LayerRegions(program.network, tile.image, tile.rect, program.block_px);
  double macs = 0;
  for (size_t i = 0; i < regions.size(); ++i) {
    const Layer& layer = program.network.layers[i];
    const double taps = static_cast<double>(layer.kernel_px) * layer.kernel_px * layer.in_channels *
                        layer.out_channels;
    if (layer.op == Op::kConv) macs += taps * regions[i].Area();
  }
  return macs;
}

// The larger a tile, the less is computed twice: the largest of the candidates that neither takes
// long (a cancelled request waits for it) nor much memory.
// RESOURCE_EXHAUSTED when the network needs more than kMaxWorkspaceBytes for the smallest.
absl::StatusOr<Size> ChooseTile(const Program& program) {
  constexpr double kMaxMacs = 150e9;  // half a second of one AVX-512 core
  constexpr size_t kGoodWorkspaceBytes = size_t{64} << 20;
  constexpr Size kLargestFirst[] = {{960, 540}, {720, 408}, {480, 270}, {360, 204}, {240, 135}};
  for (const Size size : kLargestFirst) {
    const InnerTile tile(size);
    const bool fits = WorkspaceOf(program, tile) <= kGoodWorkspaceBytes;
    if (fits && TileMacs(program, tile) <= kMaxMacs) return size;
  }
  constexpr Size kSmallest = {120, 72};
  const size_t bytes = WorkspaceOf(program, InnerTile(kSmallest));
  if (bytes <= CpuExecutable::kMaxWorkspaceBytes) return kSmallest;
  return absl::ResourceExhaustedError(absl::StrCat(
      "a tile of ", kSmallest.width, "x", kSmallest.height, " pixels needs ", bytes >> 20,
      " MiB of workspace, the limit is ", CpuExecutable::kMaxWorkspaceBytes >> 20));
}

}  // namespace

CpuExecutable::CpuExecutable(Network network, Program program, Size preferred_tile)
    : network_(std::move(network)), program_(std::move(program)), preferred_tile_(preferred_tile) {}

absl::StatusOr<std::shared_ptr<const Executable>> CpuExecutable::Create(
    const Network& network, Isa isa, const KernelInfo* forced_kernel, KernelChooser* chooser) {
  RETURN_IF_ERROR(network.Validate());
  try {
    ASSIGN_OR_RETURN(Program program, BuildProgram(network, isa, forced_kernel, chooser));
    ASSIGN_OR_RETURN(const Size tile, ChooseTile(program));
    return std::shared_ptr<const Executable>(
        new CpuExecutable(DropWeights(network), std::move(program), tile));
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "no memory for the packed weights of a network of ", network.WeightCount(), " weights"));
  }
}

Rect CpuExecutable::InputRect(const Rect& tile, Size image) const {
  const std::vector<Rect> regions = LayerRegions(program_.network, image, tile, program_.block_px);
  return SourceRect(program_.network, regions[0], image);
}

size_t CpuExecutable::WorkspaceBytes(Size tile) const {
  // A period larger than asked: a tile's regions depend on how it lies to the blocks.
  return WorkspaceOf(program_, InnerTile({tile.width + kMaxPeriodPx, tile.height + kMaxPeriodPx}));
}

}  // namespace upscaled::cpu
