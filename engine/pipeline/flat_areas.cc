#include "engine/pipeline/flat_areas.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "engine/base/int_math.h"
#include "engine/pipeline/network_pass.h"

namespace upscaled {
namespace {

// Below this share of flat cells a tile is not worth the time to look for a cover.
constexpr double kMinFlatShare = 1.0 / 16;
// A cover must cost no more than this of the tile: small rectangles run a little slower than
// their multiply-adds say.
constexpr double kMaxCostShare = 0.96;

SmallImage SmallImageOf(const PassSpec& pass) { return SmallImage(pass.source.size(), pass.reach); }

// Large enough to keep the search of cells cheap, small enough to follow an outline. Parts begin
// and end with blocks of the kernels, except where tiles do.
int CellPx(const PassSpec& pass) {
  constexpr int kMinCellPx = 6;
  return RoundUp(kMinCellPx, pass.reach.repeat_px);
}

CellGrid CellGridOf(const PassSpec& pass) {
  const int cell_px = CellPx(pass), at = RoundUp(kWholeImageHaloPx, cell_px);
  const Size image{2 * at + cell_px, 2 * at + cell_px};
  // In turned images a cell sees other sides, and lies anywhere between two blocks.
  if (pass.tta) {
    return {cell_px, pass.source_repeat_px, Expand({0, 0, cell_px, cell_px}, pass.reach.halo_px())};
  }
  Rect input = pass.executable->Plan({at, at, cell_px, cell_px}, image).input;
  input.x -= at;
  input.y -= at;
  return {cell_px, pass.source_repeat_px, input};
}

// The cost of parts of the pass's tiles, wherever they lie.
RectCost CostOfRects(const PassSpec& pass) {
  const int side = RoundUp(32, pass.reach.repeat_px);
  const auto cost = [&](int px) {
    const int image = 2 * kWholeImageHaloPx + px;
    const Rect tile{kWholeImageHaloPx, kWholeImageHaloPx, px, px};
    return static_cast<double>(pass.executable->Plan(tile, {image, image}).Cost(/*cached=*/false));
  };
  return RectCost::Fit(side, cost(side), cost(2 * side), cost(4 * side));
}

int64_t CostOf(const TileParts& parts) {
  int64_t cost = 0;
  for (const TileVariants& part : parts) {
    for (const auto& plan : part.plans) cost += plan->Cost(/*cached=*/false);
  }
  return cost;
}

}  // namespace

struct FlatAreas::Band {
  FlatCells flat;
  std::vector<FlatResult*> results;  // for each block; null where it is to be computed

  FlatResult* ResultAt(int x, int y) const {
    const int16_t block = flat.BlockOf(x / flat.cell_px, y / flat.cell_px);
    return block == FlatCells::kNone ? nullptr : results[static_cast<size_t>(block)];
  }
};

bool FlatAreas::Apply(const PassSpec& pass) {
  if (!pass.spares_flat_areas || pass.reach.repeat_px == 0) return false;
  if (pass.rows) return true;
  // A stream's workspace has the size of the pass's tiles.
  const Executable& executable = *pass.executable;
  const Size small = SmallImageOf(pass).size();
  return executable.WorkspaceBytes(small) <= executable.WorkspaceBytes(pass.tile) &&
         executable.HostWorkspaceBytes(small) <= executable.HostWorkspaceBytes(pass.tile);
}

bool FlatAreas::ApplyInRows(const PassSpec& tiles, RowStreamNeed& need) {
  if (!tiles.spares_flat_areas || tiles.reach.repeat_px == 0) return false;
  // A network with a wide view finds hardly an area of the same flat width, and holds many bands.
  constexpr int kMaxReachPx = 120;
  if (tiles.reach.halo.top_px + tiles.reach.halo.bottom_px > kMaxReachPx) return false;
  const Executable& executable = *tiles.executable;
  const Size small = SmallImageOf(tiles).size();
  // A tile of a whole image takes as much as the image's rows.
  const std::optional<RowStreamNeed> flat = executable.PlanRowStream(small);
  if (!flat || !executable.ComputesTiles(small)) return false;
  const size_t scratch = flat->bytes + flat->scratch_bytes;
  // No more of a stream than tiles take.
  if (scratch > std::max(need.scratch_bytes, executable.WorkspaceBytes(tiles.tile))) return false;
  need.scratch_bytes = std::max(need.scratch_bytes, scratch);
  return true;
}

size_t FlatAreas::Bytes(const PassSpec& pass, int band_rows) {
  return FlatResults::Bytes(pass, SmallImageOf(pass)) + kCellCoverBytes +
         FlatCellsBytes(pass.source.width_px, band_rows, CellPx(pass));
}

size_t FlatAreas::AreaBytes(const PassSpec& pass) {
  const int cell_px = CellPx(pass);
  const size_t columns = CeilDiv(pass.source.width_px, cell_px) + 1;
  const size_t rows = CeilDiv(pass.tile.height, cell_px) + 1;
  // Between two areas of a row lies a computed cell, or a tile's end; a vector doubles.
  return columns * rows * sizeof(FlatArea);
}

FlatAreas::FlatAreas(const PassSpec& pass)
    : pass_(pass),
      small_(SmallImageOf(pass)),
      grid_(CellGridOf(pass)),
      cost_(CostOfRects(pass)),
      results_(pass_, small_) {}

std::vector<FlatArea> FlatAreas::CutOut(const ImageView& rows, int first_row, int band_number,
                                        const Rect& band_rect, int oldest_band,
                                        std::span<TileParts> tiles) {
  const int block_px = grid_.block_px;
  Band band{FindFlatCells(rows, first_row, band_rect, grid_), {}};
  for (const FlatCells::Block& block : band.flat.blocks) {
    FlatResult* result = nullptr;
    if (block.flat_px >= small_.size().Area()) {
      result = results_.Find(rows.Crop({block.x, block.y - first_row, block_px, block_px}),
                             band_number, oldest_band);
    }
    band.results.push_back(result);
  }
  std::vector<FlatArea> areas;
  for (TileParts& tile : tiles) CutOutOf(tile, band, areas);
  return areas;
}

TileCells FlatAreas::CellsOf(const Rect& tile, const Band& band) const {
  const int cell_px = band.flat.cell_px;
  TileCells cells{
      CutAtCells(tile.x, tile.right(), cell_px), CutAtCells(tile.y, tile.bottom(), cell_px), {}};
  for (int y = 0; y < cells.rows(); ++y) {
    for (int x = 0; x < cells.columns(); ++x) {
      cells.needed.push_back(band.ResultAt(cells.columns_px[x], cells.rows_px[y]) == nullptr);
    }
  }
  return cells;
}

void FlatAreas::CutOutOf(TileParts& tile, const Band& band, std::vector<FlatArea>& areas) const {
  const Rect whole = tile.front().plans.front()->tile;
  if (std::ranges::all_of(band.results, [](const FlatResult* r) { return r == nullptr; })) return;
  const TileCells cells = CellsOf(whole, band);
  const auto flat = static_cast<double>(std::ranges::count(cells.needed, 0));
  if (flat < kMinFlatShare * static_cast<double>(cells.needed.size())) return;

  const std::vector<Rect> cover = CoverNeededCells(cells, cost_);
  if (cover.size() > kMaxParts) return;
  TileParts parts;
  for (const Rect& rect : cover) {
    parts.push_back(PlanVariants(*pass_.executable, rect, pass_.source.size(), pass_.tta));
  }
  if (static_cast<double>(CostOf(parts)) > kMaxCostShare * static_cast<double>(CostOf(tile)))
    return;
  tile = std::move(parts);
  AddCopied(tile, cells, band, areas);
}

void FlatAreas::AddCopied(const TileParts& parts, const TileCells& cells, const Band& band,
                          std::vector<FlatArea>& areas) {
  const auto is_computed = [&](int x, int y) {
    return std::ranges::any_of(parts, [&](const TileVariants& part) {
      return part.plans.front()->tile.Contains({x, y, 1, 1});
    });
  };
  for (int y = 0; y < cells.rows(); ++y) {
    const int top = cells.rows_px[y], height = cells.rows_px[y + 1] - top;
    for (int x = 0; x < cells.columns(); ++x) {
      const int left = cells.columns_px[x], width = cells.columns_px[x + 1] - left;
      if (is_computed(left, top)) continue;
      FlatResult* const result = band.ResultAt(left, top);
      FlatArea* const before = areas.empty() ? nullptr : &areas.back();
      if (before != nullptr && before->result == result && before->area.y == top &&
          before->area.right() == left) {
        before->area.width += width;
      } else {
        areas.push_back({{left, top, width, height}, result});
      }
    }
  }
}

}  // namespace upscaled
