#include "engine/backends/cpu/cpu_executable.h"

#include <algorithm>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/backends/cpu/run_tile.h"
#include "engine/backends/cpu/tile_plan.h"
#include "engine/base/status_macros.h"
#include "engine/graph/inner_tile.h"
#include "engine/graph/tile_geometry.h"
#include "engine/model/without_weights.h"

namespace upscaled::cpu {
namespace {

// Of the run that needs most.
size_t WorkspaceOf(const Program& program, const InnerTile& tile) {
  size_t floats = 0;
  for (size_t known_means = 0; known_means <= program.poolings.size(); ++known_means) {
    const TilePlan plan = PlanTile(program, tile.image, tile.rect, known_means, /*keeps=*/false);
    floats = std::max(floats, plan.workspace_floats);
  }
  return floats * sizeof(float);
}

// The larger a tile, the less is computed twice: the largest of the candidates that neither takes
// long (a cancelled request waits for it) nor much memory. Where even the smallest takes much, the
// rim costs more than the tile, and the largest within kMaxWorkspaceBytes is best.
// RESOURCE_EXHAUSTED when the network needs more than kMaxWorkspaceBytes for the smallest.
absl::StatusOr<Size> ChooseTile(const Program& program) {
  // Half a second of one AVX-512 core.
  const double max_macs = program.precision == Precision::kFast ? 300e9 : 150e9;
  // With global poolings what lies around a tile is computed again in every run.
  const size_t good_workspace_bytes = size_t{program.poolings.empty() ? 64u : 192u} << 20;
  constexpr Size kLargestFirst[] = {{960, 540}, {720, 408}, {480, 270}, {360, 204}, {240, 135}};
  for (const Size size : kLargestFirst) {
    const InnerTile tile(size);
    const bool fits = WorkspaceOf(program, tile) <= good_workspace_bytes;
    const double macs =
        TileMacs(program.network, LayerRegions(program.network, tile.image, tile.rect,
                                               program.block_px, program.block_origin_px));
    if (fits && macs <= max_macs) return size;
  }
  constexpr Size kSmallest = {120, 72};
  const size_t bytes = WorkspaceOf(program, InnerTile(kSmallest));
  for (const Size size : kLargestFirst) {
    if (bytes <= good_workspace_bytes) break;
    if (WorkspaceOf(program, InnerTile(size)) <= CpuExecutable::kMaxWorkspaceBytes) return size;
  }
  if (bytes <= CpuExecutable::kMaxWorkspaceBytes) return kSmallest;
  return absl::ResourceExhaustedError(absl::StrCat(
      "a tile of ", kSmallest.width, "x", kSmallest.height, " pixels needs ", bytes >> 20,
      " MiB of workspace, the limit is ", CpuExecutable::kMaxWorkspaceBytes >> 20));
}

struct TiledProgram {
  Program program;
  Size tile;  // preferred
};

absl::StatusOr<TiledProgram> Build(const Network& network, Isa isa, const KernelInfo* forced_kernel,
                                   Precision precision, KernelChooser* chooser) {
  ASSIGN_OR_RETURN(Program program, BuildProgram(network, isa, forced_kernel, precision, chooser));
  absl::StatusOr<Size> tile = ChooseTile(program);
  if (absl::IsResourceExhausted(tile.status()) && forced_kernel == nullptr) {
    // Every layer's blocks widen the rim of a tile; over hundreds of layers that costs far more
    // than kernels without blocks.
    const char* direct = precision == Precision::kFast ? "direct_fp16" : "direct";
    ASSIGN_OR_RETURN(program, BuildProgram(network, isa, FindKernel(direct), precision));
    tile = ChooseTile(program);
  }
  RETURN_IF_ERROR(tile.status());
  return TiledProgram{std::move(program), *tile};
}

Rect SourceOf(const Program& program, Size image, const Rect& tile) {
  const std::vector<Rect> regions =
      LayerRegions(program.network, image, tile, program.block_px, program.block_origin_px);
  return SourceRect(program.network, regions[0], image);
}

}  // namespace

CpuExecutable::CpuExecutable(Network network, Program program, std::optional<Program> exact_program,
                             Size preferred_tile)
    : network_(std::move(network)),
      program_(std::move(program)),
      exact_program_(std::move(exact_program)),
      preferred_tile_(preferred_tile) {}

absl::StatusOr<std::shared_ptr<const Executable>> CpuExecutable::Create(
    const Network& network, Isa isa, const KernelInfo* forced_kernel, Precision precision,
    KernelChooser* chooser) {
  RETURN_IF_ERROR(network.Validate());
  try {
    ASSIGN_OR_RETURN(TiledProgram chosen, Build(network, isa, forced_kernel, precision, chooser));
    std::optional<Program> exact_program;
    if (precision == Precision::kFast) {
      ASSIGN_OR_RETURN(TiledProgram exact,
                       Build(network, isa, nullptr, Precision::kExact, chooser));
      exact_program = std::move(exact.program);
    }
    return std::shared_ptr<const Executable>(new CpuExecutable(
        WithoutWeights(network), std::move(chosen.program), std::move(exact_program), chosen.tile));
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "no memory for the packed weights of a network of ", network.WeightCount(), " weights"));
  }
}

Rect CpuExecutable::InputRect(const Rect& tile, Size image) const {
  const Rect input = SourceOf(program_, image, tile);
  return exact_program_ ? Cover(input, SourceOf(*exact_program_, image, tile)) : input;
}

size_t CpuExecutable::WeightBytes() const {
  return program_.weight_bytes + (exact_program_ ? exact_program_->weight_bytes : 0);
}

size_t CpuExecutable::WorkspaceBytes(Size tile) const {
  const size_t bytes = WorkspaceOf(program_, AnywhereTile(tile));
  return exact_program_ ? std::max(bytes, WorkspaceOf(*exact_program_, AnywhereTile(tile))) : bytes;
}

std::unique_ptr<TileMemory> CpuExecutable::CreateTileMemory() const {
  return program_.poolings.empty() ? nullptr : std::make_unique<KeptLayers>();
}

size_t CpuExecutable::TileMemoryBytes(Size tile) const {
  if (program_.poolings.empty()) return 0;
  const InnerTile anywhere = AnywhereTile(tile);
  return PlanTile(program_, anywhere.image, anywhere.rect, 0, /*keeps=*/true).memory_floats *
         sizeof(float);
}

}  // namespace upscaled::cpu
