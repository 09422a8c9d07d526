#include "engine/backends/cpu/cpu_executable.h"

#include <algorithm>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/backends/cpu/calibration.h"
#include "engine/backends/cpu/row_schedule.h"
#include "engine/backends/cpu/run_tile.h"
#include "engine/backends/cpu/tile_choice.h"
#include "engine/base/cpu_info.h"
#include "engine/base/status_macros.h"
#include "engine/graph/inner_tile.h"
#include "engine/model/without_weights.h"

namespace upscaled::cpu {
namespace {

struct TiledProgram {
  Program program;
  std::vector<Size> tiles;  // as RankTiles
};

// Every layer's blocks widen the halo of a tile; over hundreds of layers that costs far more than
// kernels without blocks. Found out before any weights are packed.
absl::StatusOr<bool> HasRoomForBlocks(const Network& network, Isa isa, Precision precision) {
  ASSIGN_OR_RETURN(const Program planned,
                   BuildProgram(WithoutWeights(network), isa, nullptr, precision));
  return WorkspaceOf(planned, InnerTile(kSmallestTile)) <= CpuExecutable::kMaxWorkspaceBytes;
}

// `has_weights`: else the program is only planned, and its layers cannot be looked at.
absl::StatusOr<Program> BuildBest(const Network& network, Isa isa, const KernelEntry* forced_kernel,
                                  Precision precision, KernelChooser* chooser, bool has_weights) {
  bool blocks = true;
  if (forced_kernel == nullptr) {
    ASSIGN_OR_RETURN(blocks, HasRoomForBlocks(network, isa, precision));
  }
  if (!blocks) {
    const bool fp16 = precision == Precision::kFast && HasFp16(isa);
    return BuildProgram(network, isa, FindKernel(fp16 ? "direct_fp16" : "direct"), precision);
  }
  Calibration calibration;
#ifdef UPSCALED_VNNI
  if (precision == Precision::kFast && has_weights) {
    ASSIGN_OR_RETURN(calibration, Calibrate(network, isa, forced_kernel));
  }
#endif
  return BuildProgram(network, isa, forced_kernel, precision, chooser, calibration);
}

absl::StatusOr<TiledProgram> Build(const Network& network, Isa isa,
                                   const KernelEntry* forced_kernel, Precision precision,
                                   KernelChooser* chooser, bool has_weights) {
  ASSIGN_OR_RETURN(Program program,
                   BuildBest(network, isa, forced_kernel, precision, chooser, has_weights));
  ASSIGN_OR_RETURN(std::vector<Size> tiles, RankTiles(program, CoreCacheBytes()));
  return TiledProgram{std::move(program), std::move(tiles)};
}

struct Programs {
  TiledProgram chosen;
  std::optional<Program> exact;  // of precision kFast
};

absl::StatusOr<Programs> BuildAll(const Network& network, Isa isa, const KernelEntry* forced_kernel,
                                  Precision precision, KernelChooser* chooser, bool has_weights) {
  ASSIGN_OR_RETURN(TiledProgram chosen,
                   Build(network, isa, forced_kernel, precision, chooser, has_weights));
  Programs programs{std::move(chosen)};
  if (precision == Precision::kFast) {
    ASSIGN_OR_RETURN(TiledProgram exact,
                     Build(network, isa, nullptr, Precision::kExact, chooser, has_weights));
    programs.exact = std::move(exact.program);
  }
  return programs;
}

}  // namespace

CpuExecutable::CpuExecutable(Network network, Program program, std::optional<Program> exact_program,
                             Size preferred_tile)
    : network_(std::move(network)),
      program_(std::move(program)),
      exact_program_(std::move(exact_program)),
      preferred_tile_(preferred_tile) {}

absl::StatusOr<std::shared_ptr<const Executable>> CpuExecutable::Create(
    const Network& network, Isa isa, const KernelEntry* forced_kernel, Precision precision,
    KernelChooser* chooser) {
  RETURN_IF_ERROR(network.Validate());
  try {
    ASSIGN_OR_RETURN(auto programs, BuildAll(network, isa, forced_kernel, precision, chooser,
                                             /*has_weights=*/true));
    TiledProgram& chosen = programs.chosen;
    KernelChooser* const tile_chooser = forced_kernel == nullptr ? chooser : nullptr;
    const Size tile =
        ChooseTile(network, chosen.program, isa, std::move(chosen.tiles), tile_chooser);
    return std::shared_ptr<const Executable>(new CpuExecutable(
        WithoutWeights(network), std::move(chosen.program), std::move(programs.exact), tile));
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "no memory for the packed weights of a network of ", network.WeightCount(), " weights"));
  }
}

absl::StatusOr<MemoryNeed> CpuExecutable::PlanMemory(const Network& network, Isa isa,
                                                     const KernelEntry* forced_kernel,
                                                     Precision precision) {
  RETURN_IF_ERROR(network.Validate());
  Network layers = WithoutWeights(network);
  ASSIGN_OR_RETURN(auto programs, BuildAll(layers, isa, forced_kernel, precision,
                                           /*chooser=*/nullptr, /*has_weights=*/false));
  const Size tile = programs.chosen.tiles.front();
  const CpuExecutable planned(std::move(layers), std::move(programs.chosen.program),
                              std::move(programs.exact), tile);
  return MemoryNeed{planned.WeightBytes(), planned.WorkspaceBytes(tile)};
}

TilePlan CpuExecutable::MakePlan(const Rect& tile, Size image) const {
  TilePlan plan = PlanTile(program_, image, tile);
  // Pixels that overflow are computed once more.
  if (exact_program_) plan.input = Cover(plan.input, PlanTile(*exact_program_, image, tile).input);
  return plan;
}

size_t CpuExecutable::WeightBytes() const {
  return program_.weight_bytes + (exact_program_ ? exact_program_->weight_bytes : 0);
}

size_t CpuExecutable::WorkspaceBytes(Size tile) const {
  const size_t bytes = WorkspaceOf(program_, AnywhereTile(tile));
  return exact_program_ ? std::max(bytes, WorkspaceOf(*exact_program_, AnywhereTile(tile))) : bytes;
}

std::unique_ptr<ActivationCache> CpuExecutable::CreateActivationCache() const {
  return program_.poolings.empty() ? nullptr : std::make_unique<CachedLayers>(program_);
}

size_t CpuExecutable::ActivationCacheBytes(Size tile) const {
  if (program_.poolings.empty()) return 0;
  const InnerTile anywhere = AnywhereTile(tile);
  const TilePlan plan = PlanTile(program_, anywhere.image, anywhere.rect);
  return ScheduleRows(program_, plan, 0, /*keeps=*/true).cached_floats * sizeof(float);
}

}  // namespace upscaled::cpu
