#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/int_math.h"
#include "engine/base/status_macros.h"
#include "engine/graph/tile_plan.h"
#include "engine/image/bilateral.h"
#include "engine/image/resample.h"
#include "engine/image/wrap.h"
#include "engine/pipeline/cell_pass.h"
#include "engine/pipeline/corrected_pass.h"
#include "engine/pipeline/dihedral.h"
#include "engine/pipeline/image_run.h"
#include "engine/pipeline/kept_colours.h"
#include "engine/pipeline/network_pass.h"
#include "engine/pipeline/stages.h"
#include "engine/pipeline/tile_grid.h"
#include "engine/pipeline/tile_shape.h"
#include "engine/pipeline/tta_tile.h"
#include "engine/pipeline/upscaler.h"

namespace upscaled {
namespace {

// An image between two passes, and so every coordinate, stays far inside an int.
constexpr int64_t kMaxPassSidePx = int64_t{1} << 24;
// An image of 100 megapixels in tiles of 32 x 32, the eight variants of each.
constexpr int64_t kMaxTiles = int64_t{1} << 20;
// Blocks of flat areas grow with each pass; larger ones are not worth a search.
constexpr int kMaxCommonRepeatPx = 64;
constexpr size_t kPlanOverheadBytes = 16384;  // everything small
// Tiles at this many times the cost of the whole image at once give way to a stream of rows.
// Several cheaper ones run at once, each in the caches of its own core.
constexpr double kMaxTilesCost = 1.1;
// A stream of rows keeps at most one thread busy per this many columns: of more threads some find
// none left to take (`upscale-bench cores`).
constexpr int kRowsThreadPx = 80;
// The rows of a stream's bands, in source pixels.
constexpr int kBandRows = 24;
static_assert(kBandRows % RowStream::kBandMultiple == 0);
// An image of less work than this ends before it delays another one.
constexpr double kMinRowsCost = 1e9;

absl::Status CheckInput(const ImageSpec& source, Size result, const UpscaleOptions& options) {
  if (source.width_px < 1 || source.height_px < 1 || result.width < 1 || result.height < 1) {
    return absl::InvalidArgumentError(absl::StrCat("cannot turn an image of ", source.width_px, "x",
                                                   source.height_px, " into one of ", result.width,
                                                   "x", result.height, ": below 1 pixel"));
  }
  if (source.channels < 1 || source.channels > 4 || source.type == SampleType::kF32) {
    return absl::InvalidArgumentError(absl::StrCat("cannot upscale images of ", source.channels,
                                                   " channels of ", SampleBytes(source.type),
                                                   " bytes: 1 to 4 of 1 or 2 are supported"));
  }
  if (options.result_type == SampleType::kF32) {
    return absl::InvalidArgumentError("result_type must be kU8 or kU16");
  }
  if (options.tile_px < 0 || options.concurrency < 1) {
    return absl::InvalidArgumentError(absl::StrCat("tile_px ", options.tile_px,
                                                   " must be 0 or more and concurrency ",
                                                   options.concurrency, " 1 or more"));
  }
  if (options.prefilter && !options.prefilter->valid()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "prefilter has sigma_space ", options.prefilter->sigma_space, " and sigma_range ",
        options.prefilter->sigma_range, "; they must be ", BilateralOptions::kMinSigma, " to ",
        BilateralOptions::kMaxSigmaSpace, " and to ", BilateralOptions::kMaxSigmaRange));
  }
  return absl::OkStatus();
}

absl::Status CheckPasses(const ImageSpec& source,
                         const std::vector<std::shared_ptr<const Executable>>& passes) {
  int64_t side = std::max(source.width_px, source.height_px);
  for (const auto& pass : passes) {
    side *= pass->network().scale;
    if (side > kMaxPassSidePx) {
      return absl::InvalidArgumentError(
          absl::StrCat("the passes make an image of ", source.width_px, "x", source.height_px,
                       " larger than the limit of ", kMaxPassSidePx, " pixels a side"));
    }
  }
  return absl::OkStatus();
}

// Source pixels beyond a border for the last resize, of an image enlarged by `scale`.
double ResizeMarginPx(Size source, int scale, Size result) {
  const double x = FilterReach(source.width * scale, result.width, Filter::kLanczos3);
  const double y = FilterReach(source.height * scale, result.height, Filter::kLanczos3);
  return std::max(x, y) / scale;
}

// Source pixels beyond a border on which the result depends: the reach of the networks, of the
// corrections of their colours and of the colours under alpha 0, up to kMaxNetworkPx, since nothing
// farther is seen at a border; and the reach of the prefilter and of the last resize.
// INVALID_ARGUMENT: the resize makes the image small enough to need more than kMaxWrapPx.
absl::StatusOr<int> WrapPx(const ImageSpec& source, Size result,
                           const std::vector<std::shared_ptr<const Executable>>& passes,
                           const UpscaleOptions& options) {
  constexpr int kMaxNetworkPx = 64, kImagePx = 2 * kWholeImageHaloPx, kMaxWrapPx = 1024;
  double px = 0;
  int scale = 1;
  for (const auto& pass : passes) {
    const Network& network = pass->network();
    const TilePlan plan =
        PlanTile(network, {2 * kImagePx, 2 * kImagePx}, {kImagePx, kImagePx, 1, 1});
    const int halo = std::max(kImagePx - plan.input.x, plan.input.right() - kImagePx);
    const int corrections = options.keep_colours ? kKeptColoursRounds * kKeptColoursBorderPx : 0;
    px += static_cast<double>(halo + corrections) / scale;
    scale *= network.scale;
  }
  const bool bleeds = source.has_alpha() && options.alpha_colour == AlphaColour::kBleed;
  if (bleeds) px += std::min<double>(px, kMaxBleedPx);
  px = std::min<double>(px, kMaxNetworkPx) + ResizeMarginPx(source.size(), scale, result);
  if (options.prefilter) px += PlanBilateral(source, *options.prefilter).border_px;
  if (px <= kMaxWrapPx) return static_cast<int>(std::ceil(px));
  return absl::InvalidArgumentError(
      absl::StrCat("seamless: to make ", source.width_px, "x", source.height_px, " as small as ",
                   result.width, "x", result.height, " takes ", std::ceil(px),
                   " pixels beyond each border; the limit is ", kMaxWrapPx));
}

// The rows of the first pass.
ImageSpec PassInput(const UpscalePlan& plan) {
  ImageSpec input = PlanWrap(plan.source, plan.wrap_px).result;
  if (plan.options.prefilter) input = PlanBilateral(input, *plan.options.prefilter).result;
  input.channels = plan.source.has_alpha() ? 4 : 3;
  return input;
}

// The passes of `plan` one after the other, not cut into tiles yet.
std::vector<PassSpec> ChainPasses(const UpscalePlan& plan,
                                  std::vector<std::shared_ptr<const Executable>> executables) {
  std::vector<PassSpec> passes;
  ImageSpec spec = PassInput(plan);
  int repeat_px = 1;  // of flat areas of `spec`; 0: there are none
  for (auto& executable : executables) {
    PassSpec& pass = passes.emplace_back(PassSpec{.executable = std::move(executable),
                                                  .source = spec,
                                                  .result_type = SampleType::kU16,
                                                  .tta = plan.options.tta,
                                                  .corrects = plan.options.corrects,
                                                  .keeps_colours = plan.options.keep_colours});
    // At its own size alpha stays as it is.
    pass.computes_alpha = spec.has_alpha() && plan.options.alpha == AlphaMethod::kNetwork &&
                          pass.executable->network().scale > 1;
    pass.cells = CellsOf(pass.executable->network(), spec.size(), plan.options.max_whole_bytes);
    pass.reach = pass.cells ? ReachOf(*pass.cells) : ReachOf(*pass.executable, spec.size());
    if (pass.tta) pass.reach = TurnedReach(pass.reach);
    const int common_px = std::lcm(repeat_px, pass.reach.repeat_px);
    // Attention may round otherwise from one place of a flat area to the next.
    const bool attends =
        std::ranges::any_of(pass.executable->network().layers,
                            [](const Layer& layer) { return layer.op == Op::kWindowAttention; });
    pass.spares_flat_areas = plan.options.spare_flat_areas && !attends && common_px > 0 &&
                             common_px <= kMaxCommonRepeatPx;
    if (pass.spares_flat_areas) {
      pass.source_repeat_px = repeat_px;
      pass.reach.repeat_px = common_px;
    }
    repeat_px = pass.spares_flat_areas ? common_px * pass.executable->network().scale : 0;
    spec = PassResult(pass);
  }
  // Where no other stage follows.
  spec.type = plan.result.type;
  if (!passes.empty() && spec == plan.result) passes.back().result_type = spec.type;
  return passes;
}

TileShape ShapeOf(const PassSpec& pass, const UpscaleOptions& options, size_t budget_bytes) {
  const size_t scale = pass.executable->network().scale;
  TileShapeInput input;
  input.image = pass.source.size();
  input.sees_all = TilesSeeAll(*pass.executable, input.image);
  input.max_tile = input.sees_all ? input.image : pass.executable->PreferredTileOf(input.image);
  if (options.tile_px > 0) {
    input.max_tile.width = std::min(input.max_tile.width, options.tile_px);
    input.max_tile.height = std::min(input.max_tile.height, options.tile_px);
  }
  const Halo& halo = pass.reach.halo;
  input.halo_px = halo.Mean();
  input.streams = options.concurrency;
  input.min_share_px = pass.executable->MinSharePx();
  const size_t images = static_cast<size_t>(pass.images());
  // The network and the correction of its result both hold rows of the source.
  input.row_bytes =
      images * (2 * pass.source.row_bytes() + scale * UncorrectedResult(pass).row_bytes());
  if (pass.tta) {
    const Size row{pass.source.width_px, 1};
    input.row_bytes += images * TtaTile::Bytes(row, row, static_cast<int>(scale), pass.source.type);
  }
  const int halo_rows = std::min(halo.top_px + halo.bottom_px, pass.source.height_px);
  input.halo_bytes = images * static_cast<size_t>(halo_rows) * pass.source.row_bytes();
  input.budget_bytes = budget_bytes - std::min(budget_bytes, images * CorrectionBytes(pass));
  return ChooseTileShape(input);
}

// How many tiles of each of the pass's images get an ActivationCache out of `left_bytes`; one that
// is an image computed whole gets it in any case. With TTA only such images get one, since the
// variants of other tiles would need one each.
int64_t TakeCachedTiles(const PassSpec& pass, size_t& left_bytes) {
  const Size image = pass.source.size();
  const size_t bytes = static_cast<size_t>(pass.images()) *
                       ImageRun::CacheBytes(*pass.executable, pass.tile, image, pass.tta);
  const bool is_image = pass.tile == image;
  if (bytes == 0 || (pass.tta && !is_image)) return 0;
  if (is_image && TilesSeeAll(*pass.executable, image)) {
    left_bytes -= std::min(left_bytes, bytes);
    return 1;
  }
  const int64_t tiles =
      std::min(TileGrid(image, pass.tile).count(), static_cast<int64_t>(left_bytes / bytes));
  left_bytes -= static_cast<size_t>(tiles) * bytes;
  return tiles;
}

// Makes a pass one of cells, with no more in flight than have room for their caches.
void TakeCells(const UpscaleOptions& options, size_t& left_bytes, PassSpec& pass) {
  pass.tile = pass.cells->cell();
  const size_t bytes = static_cast<size_t>(pass.images()) *
                       ImageRun::CacheBytes(*pass.executable, pass.tile, pass.tile, pass.tta);
  const size_t room = bytes == 0 ? pass.cells->x.count() : left_bytes / bytes;
  const size_t streams = std::min(options.concurrency, pass.cells->x.count());
  pass.cells_in_flight = static_cast<int>(std::clamp<size_t>(room, 1, streams));
  left_bytes -= std::min(left_bytes, bytes * static_cast<size_t>(pass.cells_in_flight));
}

double PassCost(const PassSpec& pass) {
  if (pass.cells) return CellPassCost(pass);
  const Size image = pass.source.size();
  const Size tile = pass.rows ? image : pass.tile;
  const double cost =
      pass.images() * ImageRun::Cost(*pass.executable, image, tile, pass.cached_tiles);
  return pass.tta ? cost * Dihedral::kCount : cost;
}

// The need of a stream of rows, if it is the better way for a pass in tiles.
std::optional<RowStreamNeed> RowsInsteadOf(const PassSpec& tiles, const UpscaleOptions& options) {
  const Executable& executable = *tiles.executable;
  const Size image = tiles.source.size();
  const bool only = !executable.ComputesTiles(image);
  if (tiles.tta || (options.tile_px > 0 && !only)) return std::nullopt;
  const double whole = tiles.images() * ImageRun::Cost(executable, image, image);
  const int busy = std::min(options.concurrency, PartCount(image.width, kRowsThreadPx));
  const double most = kMaxTilesCost * options.concurrency / busy;
  const bool costly = whole > kMinRowsCost && PassCost(tiles) > most * whole;
  if (!costly && !only && !executable.ComputesWhole(image)) return std::nullopt;
  const std::optional<RowStreamNeed> need = executable.PlanRowStream(image);
  const size_t images = static_cast<size_t>(tiles.images());
  return need && (only || images * need->bytes <= options.row_stream_bytes) ? need : std::nullopt;
}

// INVALID_ARGUMENT for tiles of an image that is computed in rows only.
absl::Status CheckTiles(const PassSpec& pass) {
  const Size image = pass.source.size();
  if (pass.rows || pass.executable->ComputesTiles(image)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("tta of a network of hundreds of layers takes sources up to ", kMaxWholeImagePx,
                   " x ", kMaxWholeImagePx, " pixels, of about a megapixel; this one is ",
                   image.width, " x ", image.height));
}

// Makes a pass of tiles one of rows.
void TakeRows(RowStreamNeed need, PassSpec& pass) {
  const Size image = pass.source.size();
  pass.spares_flat_areas = FlatAreas::ApplyInRows(pass, need);
  pass.rows = need;
  pass.tile = {image.width, need.sees_all ? image.height : std::min(image.height, kBandRows)};
  pass.bands = 2 + BandsBelow(pass, pass.tile.height);
}

}  // namespace

absl::StatusOr<UpscalePlan> PlanUpscale(const ImageSpec& source, Size result,
                                        std::vector<std::shared_ptr<const Executable>> passes,
                                        const UpscaleOptions& options, size_t band_budget_bytes) {
  RETURN_IF_ERROR(CheckInput(source, result, options));
  RETURN_IF_ERROR(CheckPasses(source, passes));
  UpscalePlan plan;
  plan.source = source;
  plan.result = {result.width, result.height, source.channels, options.result_type};
  plan.options = options;
  if (options.seamless) {
    ASSIGN_OR_RETURN(plan.wrap_px, WrapPx(source, result, passes, options));
  }
  plan.passes = ChainPasses(plan, std::move(passes));
  size_t activation_cache_bytes = options.activation_cache_bytes;
  double cost = 0;
  int64_t colour_tiles = 0;  // those of alpha lie in the same grids
  for (PassSpec& pass : plan.passes) {
    if (pass.cells) {
      TakeCells(options, activation_cache_bytes, pass);
    } else {
      const TileShape shape = ShapeOf(pass, options, band_budget_bytes);
      pass.tile = shape.tile;
      pass.bands = shape.bands;
      pass.cached_tiles = TakeCachedTiles(pass, activation_cache_bytes);
      if (const auto rows = RowsInsteadOf(pass, options)) TakeRows(*rows, pass);
      RETURN_IF_ERROR(CheckTiles(pass));
      colour_tiles += PassTileCount(pass) / pass.images();
    }
    plan.tile_count += PassTileCount(pass);
    cost += PassCost(pass);
  }
  if (colour_tiles > kMaxTiles) {
    const std::string cutter =
        options.tile_px > 0 ? absl::StrCat("tile_px ", options.tile_px) : "the memory of a tile";
    return absl::InvalidArgumentError(absl::StrCat(cutter, " cuts the image into ", colour_tiles,
                                                   " tiles; the limit is ", kMaxTiles));
  }
  constexpr double kMaxCost = 1e18;
  plan.cost = static_cast<int64_t>(std::min(cost, kMaxCost));
  plan.stages = PlanStages(plan);
  plan.memory_bytes = kPlanOverheadBytes;
  for (const Stage& stage : plan.stages) plan.memory_bytes += stage.memory_bytes;
  return plan;
}

}  // namespace upscaled
