#include "engine/backends/cpu/cpu_executable.h"

#include <algorithm>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/backends/cpu/calibration.h"
#include "engine/backends/cpu/cpu_row_stream.h"
#include "engine/backends/cpu/interleaved_pages.h"
#include "engine/backends/cpu/row_schedule.h"
#include "engine/backends/cpu/run_tile.h"
#include "engine/backends/cpu/tile_choice.h"
#include "engine/backends/overflow.h"
#include "engine/base/check.h"
#include "engine/base/cpu_info.h"
#include "engine/base/status_macros.h"
#include "engine/graph/inner_tile.h"
#include "engine/model/op.h"
#include "engine/model/without_weights.h"

namespace upscaled::cpu {
namespace {

struct BuiltProgram {
  Program program;
  bool rows_only = false;  // so deep that tiles by these kernels compute most of an image
};

struct TiledProgram {
  BuiltProgram built;
  std::vector<Size> tiles;  // as RankTiles
};

// Every layer's blocks widen the halo of a tile; over hundreds of layers that costs far more than
// kernels without blocks. Found out before any weights are packed.
bool HasRoomForBlocks(const Program& planned) {
  constexpr size_t kMaxBytes = kMaxWorkspaceBytes / 2;  // some 150 layers
  return WorkspaceOf(planned, InnerTileOf(planned.network, kSmallestTile)) <= kMaxBytes;
}

// A network's building as it is asked for.
struct Request {
  Isa isa;
  const KernelEntry* forced_kernel = nullptr;  // may be null, as the chooser
  Precision precision = Precision::kExact;
  KernelChooser* chooser = nullptr;
  bool always_stages = false;  // see BackendOptions
  bool for_tiles = false;      // never in rows alone
  bool has_weights = true;     // else the program is only planned, its layers cannot be looked at
};

absl::StatusOr<Program> BuildProgram(const Network& network, const Request& request,
                                     const Calibration& calibration) {
  return BuildProgram(network, request.isa, request.forced_kernel, request.precision,
                      request.chooser, calibration, request.always_stages);
}

// The request by kernels without blocks.
Request WithoutBlocks(Request request) {
  const bool halves = request.precision == Precision::kFast && HasFp16(request.isa);
  request.forced_kernel = FindKernel(halves ? "direct_fp16" : "direct");
  request.chooser = nullptr;
  return request;
}

bool HasBlocks(const Program& program) {
  return std::ranges::any_of(program.steps, [](const Step& step) { return step.block_px > 1; });
}

absl::StatusOr<BuiltProgram> BuildBest(const Network& network, const Request& request) {
  BuiltProgram built;
  if (request.forced_kernel == nullptr) {
    Request plan = request;
    plan.chooser = nullptr;
    ASSIGN_OR_RETURN(const Program planned, BuildProgram(WithoutWeights(network), plan, {}));
    if (!HasRoomForBlocks(planned)) {
      built.rows_only = request.precision == Precision::kExact && !request.for_tiles &&
                        planned.poolings.empty() && !ReadsAnywhere(network) && HasBlocks(planned);
      if (!built.rows_only) {
#ifdef UPSCALED_VNNI
        const bool halves = request.precision == Precision::kFast && HasFp16(request.isa);
        if (halves && request.has_weights) {
          RETURN_IF_ERROR(Calibrate(network, request.isa, nullptr).status());
        }
#endif
        ASSIGN_OR_RETURN(built.program, BuildProgram(network, WithoutBlocks(request), {}));
        return built;
      }
    }
  }
  Calibration calibration;
#ifdef UPSCALED_VNNI
  if (request.precision == Precision::kFast && request.has_weights) {
    ASSIGN_OR_RETURN(calibration, Calibrate(network, request.isa, request.forced_kernel));
  }
#endif
  ASSIGN_OR_RETURN(built.program, BuildProgram(network, request, calibration));
  return built;
}

absl::StatusOr<TiledProgram> Build(const Network& network, const Request& request) {
  ASSIGN_OR_RETURN(BuiltProgram built, BuildBest(network, request));
  if (built.rows_only) return TiledProgram{std::move(built), {kSmallestTile}};
  ASSIGN_OR_RETURN(std::vector<Size> tiles, RankTiles(built.program, CoreCacheBytes()));
  return TiledProgram{std::move(built), std::move(tiles)};
}

struct Programs {
  TiledProgram chosen;
  std::optional<Program> exact;  // of precision kFast
};

absl::StatusOr<Programs> BuildAll(const Network& network, Request request) {
  const InterleavedPages pages;  // of packed weights
  ASSIGN_OR_RETURN(TiledProgram chosen, Build(network, request));
  Programs programs{std::move(chosen)};
  if (request.precision == Precision::kFast) {
    request.forced_kernel = nullptr;
    request.precision = Precision::kExact;
    request.for_tiles = true;  // around pixels that overflow
    ASSIGN_OR_RETURN(TiledProgram exact, Build(network, request));
    programs.exact = std::move(exact.built.program);
  }
  return programs;
}

}  // namespace

CpuExecutable::CpuExecutable(Network network, Program program, std::optional<Program> exact_program,
                             bool rows_only, Size preferred_tile,
                             std::shared_ptr<SpareBuffers> spare_buffers)
    : network_(std::move(network)),
      program_(std::move(program)),
      exact_program_(std::move(exact_program)),
      rows_only_(rows_only),
      preferred_tile_(preferred_tile),
      spare_buffers_(std::move(spare_buffers)) {}

absl::StatusOr<std::shared_ptr<const Executable>> CpuExecutable::Create(
    const Network& network, Isa isa, const KernelEntry* forced_kernel, Precision precision,
    KernelChooser* chooser, bool always_stages, std::shared_ptr<SpareBuffers> spare_buffers) {
  RETURN_IF_ERROR(network.Validate());
  try {
    ASSIGN_OR_RETURN(Programs programs, BuildAll(network, {.isa = isa,
                                                           .forced_kernel = forced_kernel,
                                                           .precision = precision,
                                                           .chooser = chooser,
                                                           .always_stages = always_stages}));
    BuiltProgram& built = programs.chosen.built;
    KernelChooser* const tile_chooser = forced_kernel == nullptr ? chooser : nullptr;
    const Size tile =
        ChooseTile(network, built.program, isa, std::move(programs.chosen.tiles), tile_chooser);
    return std::shared_ptr<const Executable>(new CpuExecutable(
        WithoutWeights(network), std::move(built.program), std::move(programs.exact),
        built.rows_only, tile, std::move(spare_buffers)));
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "no memory for the packed weights of a network of ", network.WeightCount(), " weights"));
  }
}

absl::StatusOr<MemoryNeed> CpuExecutable::PlanMemory(const Network& network, Isa isa,
                                                     const KernelEntry* forced_kernel,
                                                     Precision precision, bool always_stages) {
  RETURN_IF_ERROR(network.Validate());
  Network layers = WithoutWeights(network);
  ASSIGN_OR_RETURN(Programs programs, BuildAll(layers, {.isa = isa,
                                                        .forced_kernel = forced_kernel,
                                                        .precision = precision,
                                                        .always_stages = always_stages,
                                                        .has_weights = false}));
  BuiltProgram& built = programs.chosen.built;
  const Size tile = programs.chosen.tiles.front();
  const CpuExecutable planned(std::move(layers), std::move(built.program),
                              std::move(programs.exact), built.rows_only, tile,
                              /*spare_buffers=*/nullptr);
  return MemoryNeed{planned.WeightBytes(), planned.WorkspaceBytes(tile)};
}

bool CpuExecutable::ComputesWhole(Size image) const {
  // The pipeline limits those of networks with global poolings by their bytes.
  const bool is_large = std::max(image.width, image.height) > kMaxWholeImagePx;
  if (!MayComputeWhole() || (is_large && program_.poolings.empty())) return false;
  return has_room_.Of(image, [&] { return HasRoomForWhole(image); });
}

bool CpuExecutable::HasRoomForWhole(Size image) const {
  const auto [shorter, longer] = std::minmax(image.width, image.height);
  const auto has_room = [this](Size whole) {
    return WholeWorkspaceBytes(whole) <= kMaxWorkspaceBytes &&
           ActivationCacheBytes(whole, whole) <= kMaxWorkspaceBytes;
  };
  return has_room({longer, shorter}) && (shorter == longer || has_room({shorter, longer}));
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

size_t CpuExecutable::TileWorkspaceBytes(const InnerTile& tile) const {
  const auto bytes = [&](const Program& program) {
    return HugeBuffer::BytesFor(WorkspaceOf(program, tile) / sizeof(float)) +
           program.scratch_floats * sizeof(float);
  };
  if (!exact_program_) return bytes(program_);
  const size_t redone =
      OverflowedBytes(tile.rect.width) +
      ImageBytes({tile.rect.width * network_.scale, tile.rect.height * network_.scale, kRgbChannels,
                  SampleType::kF32});
  return std::max(bytes(program_), bytes(*exact_program_)) + redone;
}

size_t CpuExecutable::OverflowedBytes(int width_px) const {
  // All runs, one tile's, its squares' and their parts', in vectors that may be twice as large as
  // their contents.
  constexpr size_t kCopies = 2 * 4;
  const int last = static_cast<int>(program_.network.layers.size()) - 1;
  const size_t step = MaxOverflowedRuns({width_px * network_.scale, RowsAtOnce(program_, last)});
  return kCopies * (kMaxOverflowedRuns + step) * sizeof(Rect);
}

size_t CpuExecutable::WholeWorkspaceBytes(Size image) const {
  return whole_workspaces_.Of(image, [&] { return TileWorkspaceBytes(WholeImage(image)); });
}

size_t CpuExecutable::WorkspaceBytes(Size tile) const {
  // A larger tile than the preferred one is all of an image.
  const bool is_whole = MayComputeWhole() && tile.Area() > preferred_tile_.Area();
  const size_t whole = is_whole ? WholeWorkspaceBytes(tile) : 0;
  if (rows_only_) return is_whole ? whole : kMaxWorkspaceBytes;
  const Size cut = is_whole ? preferred_tile_ : tile;
  return std::max(whole, cut_workspaces_.Of(cut, [&] {
    return TileWorkspaceBytes(AnywhereTileOf(program_.network, cut));
  }));
}

std::unique_ptr<ActivationCache> CpuExecutable::CreateActivationCache() const {
  return program_.poolings.empty() ? nullptr
                                   : std::make_unique<CachedLayers>(program_, spare_buffers_);
}

size_t CpuExecutable::ActivationCacheBytes(Size tile, Size image) const {
  if (program_.poolings.empty()) return 0;
  const InnerTile anywhere = AnywhereTile(tile, image);
  const TilePlan plan = PlanTile(program_, anywhere.image, anywhere.rect);
  return SpareBuffers::MostBytes(MeasureRows(program_, plan, 0, /*keeps=*/true).cached_floats);
}

std::unique_ptr<RowStream> CpuExecutable::CreateRowStream(Size image) const {
  if (!program_.poolings.empty()) return nullptr;
  return std::make_unique<CpuRowStream>(this, program_, image, spare_buffers_->poisons());
}

std::optional<RowStreamNeed> CpuExecutable::PlanRowStream(Size image) const {
  if (!program_.poolings.empty()) return std::nullopt;
  return row_needs_.Of(image, [&] {
    RowStreamNeed need = CpuRowStream::Need(program_, image);
    // Pixels that overflow are computed once more, in tiles.
    if (exact_program_) {
      need.scratch_bytes = WorkspaceBytes(preferred_tile_) + OverflowedBytes(image.width);
    }
    return need;
  });
}

}  // namespace upscaled::cpu
