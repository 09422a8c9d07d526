#include "engine/backends/cpu/cpu_executable.h"

#include <algorithm>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/backends/cpu/calibration.h"
#include "engine/backends/cpu/row_schedule.h"
#include "engine/backends/cpu/run_tile.h"
#include "engine/backends/cpu/tile_choice.h"
#include "engine/base/check.h"
#include "engine/base/cpu_info.h"
#include "engine/base/status_macros.h"
#include "engine/graph/inner_tile.h"
#include "engine/model/without_weights.h"

namespace upscaled::cpu {
namespace {

struct BuiltProgram {
  Program program;
  std::unique_ptr<WholeImageProgram> whole_images;
};

struct TiledProgram {
  BuiltProgram built;
  std::vector<Size> tiles;  // as RankTiles
};

// Every layer's blocks widen the halo of a tile; over hundreds of layers that costs far more than
// kernels without blocks. Found out before any weights are packed.
bool HasRoomForBlocks(const Program& planned) {
  return WorkspaceOf(planned, InnerTile(kSmallestTile)) <= CpuExecutable::kMaxWorkspaceBytes;
}

absl::StatusOr<BuiltProgram> BuildWithoutBlocks(const Network& network, Isa isa,
                                                Precision precision, Program planned) {
  BuiltProgram built;
  const bool fp16 = precision == Precision::kFast && HasFp16(isa);
  ASSIGN_OR_RETURN(
      built.program,
      BuildProgram(network, isa, FindKernel(fp16 ? "direct_fp16" : "direct"), precision));
  if (precision == Precision::kExact && !planned.cuts.empty()) {
    built.whole_images = std::make_unique<WholeImageProgram>(network, isa, std::move(planned));
  }
  return built;
}

// `has_weights`: else the program is only planned, and its layers cannot be looked at.
absl::StatusOr<BuiltProgram> BuildBest(const Network& network, Isa isa,
                                       const KernelEntry* forced_kernel, Precision precision,
                                       KernelChooser* chooser, bool has_weights) {
  if (forced_kernel == nullptr) {
    ASSIGN_OR_RETURN(Program planned,
                     BuildProgram(WithoutWeights(network), isa, nullptr, precision));
    if (!HasRoomForBlocks(planned)) {
      return BuildWithoutBlocks(network, isa, precision, std::move(planned));
    }
  }
  Calibration calibration;
#ifdef UPSCALED_VNNI
  if (precision == Precision::kFast && has_weights) {
    ASSIGN_OR_RETURN(calibration, Calibrate(network, isa, forced_kernel));
  }
#endif
  BuiltProgram built;
  ASSIGN_OR_RETURN(built.program,
                   BuildProgram(network, isa, forced_kernel, precision, chooser, calibration));
  return built;
}

absl::StatusOr<TiledProgram> Build(const Network& network, Isa isa,
                                   const KernelEntry* forced_kernel, Precision precision,
                                   KernelChooser* chooser, bool has_weights) {
  ASSIGN_OR_RETURN(BuiltProgram built,
                   BuildBest(network, isa, forced_kernel, precision, chooser, has_weights));
  ASSIGN_OR_RETURN(std::vector<Size> tiles, RankTiles(built.program, CoreCacheBytes()));
  return TiledProgram{std::move(built), std::move(tiles)};
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
    programs.exact = std::move(exact.built.program);
  }
  return programs;
}

}  // namespace

const Program& WholeImageProgram::Packed() {
  std::call_once(once_, [this] {
    absl::StatusOr<Program> program = BuildProgram(source_, isa_, nullptr);
    UPSCALED_CHECK(program.ok());  // as it was planned
    packed_ = *std::move(program);
    source_ = {};
  });
  return *packed_;
}

CpuExecutable::CpuExecutable(Network network, Program program, std::optional<Program> exact_program,
                             std::unique_ptr<WholeImageProgram> whole_images, Size preferred_tile)
    : network_(std::move(network)),
      program_(std::move(program)),
      exact_program_(std::move(exact_program)),
      whole_images_(std::move(whole_images)),
      preferred_tile_(preferred_tile) {}

absl::StatusOr<std::shared_ptr<const Executable>> CpuExecutable::Create(
    const Network& network, Isa isa, const KernelEntry* forced_kernel, Precision precision,
    KernelChooser* chooser) {
  RETURN_IF_ERROR(network.Validate());
  try {
    ASSIGN_OR_RETURN(Programs programs, BuildAll(network, isa, forced_kernel, precision, chooser,
                                                 /*has_weights=*/true));
    BuiltProgram& built = programs.chosen.built;
    KernelChooser* const tile_chooser = forced_kernel == nullptr ? chooser : nullptr;
    const Size tile =
        ChooseTile(network, built.program, isa, std::move(programs.chosen.tiles), tile_chooser);
    return std::shared_ptr<const Executable>(
        new CpuExecutable(WithoutWeights(network), std::move(built.program),
                          std::move(programs.exact), std::move(built.whole_images), tile));
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
  ASSIGN_OR_RETURN(Programs programs, BuildAll(layers, isa, forced_kernel, precision,
                                               /*chooser=*/nullptr, /*has_weights=*/false));
  BuiltProgram& built = programs.chosen.built;
  const Size tile = programs.chosen.tiles.front();
  const CpuExecutable planned(std::move(layers), std::move(built.program),
                              std::move(programs.exact), std::move(built.whole_images), tile);
  return MemoryNeed{planned.WeightBytes(), planned.WorkspaceBytes(tile)};
}

bool CpuExecutable::ComputesWhole(Size image) const {
  return whole_images_ != nullptr && std::max(image.width, image.height) <= kMaxWholeImagePx &&
         WorkspaceOf(whole_images_->planned(), image, {0, 0, image.width, image.height}) <=
             kMaxWorkspaceBytes;
}

const Program& CpuExecutable::ProgramFor(Size image) const {
  return ComputesWhole(image) ? whole_images_->Packed() : program_;
}

TilePlan CpuExecutable::MakePlan(const Rect& tile, Size image) const {
  if (ComputesWhole(image)) return PlanTile(whole_images_->planned(), image, tile);
  TilePlan plan = PlanTile(program_, image, tile);
  // Pixels that overflow are computed once more.
  if (exact_program_) plan.input = Cover(plan.input, PlanTile(*exact_program_, image, tile).input);
  return plan;
}

size_t CpuExecutable::WeightBytes() const {
  return program_.weight_bytes + (exact_program_ ? exact_program_->weight_bytes : 0) +
         (whole_images_ ? whole_images_->planned().weight_bytes : 0);
}

size_t CpuExecutable::WorkspaceBytes(Size tile) const {
  // A larger tile than the preferred one is a whole image.
  if (whole_images_ && tile.Area() > preferred_tile_.Area()) return kMaxWorkspaceBytes;
  const size_t bytes = WorkspaceOf(program_, AnywhereTile(tile));
  if (whole_images_) return std::max(bytes, kMaxWorkspaceBytes);
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
