#include "engine/pipeline/tile_shape.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "engine/base/int_math.h"
#include "engine/pipeline/tile_grid.h"

namespace upscaled {
namespace {

// A stream without work during the first band's read or the last one's write costs as much as
// computing this part of the band.
constexpr double kBandCost = 0.125;
// Streams with a shared tile wait for each other at every layer. The wait costs this part of the
// tile.
constexpr double kSharingCost = 0.03;
// How many more columns or rows of tiles than the fewest possible are tried.
constexpr int kMaxMoreTiles = 16;

int BandsFor(int columns, int streams) { return 2 + (2 * streams - 1) / columns; }

size_t BandBytes(const TileShapeInput& in, int height) {
  return in.halo_bytes + in.row_bytes * static_cast<size_t>(height);
}

// The tallest band of which `bands` fit the budget, at least kMinTilePx.
int MaxBandHeight(const TileShapeInput& in, int bands) {
  const size_t share = in.budget_bytes / static_cast<size_t>(bands);
  if (in.row_bytes == 0) return in.max_tile.height;
  if (share <= in.halo_bytes) return kMinTilePx;
  const size_t height = (share - in.halo_bytes) / in.row_bytes;
  return static_cast<int>(std::clamp<size_t>(height, kMinTilePx, std::numeric_limits<int>::max()));
}

// How many tiles' time all of them take. Streams may share each of the last tiles, if these are
// fewer than the streams.
double Rounds(const TileShapeInput& in, const TileGrid& grid) {
  const int64_t full = grid.count() / in.streams, left = grid.count() % in.streams;
  if (left == 0) return static_cast<double>(full);
  const double most = PartCount(grid.tile_size().width, in.min_share_px);
  const double threads =
      std::min(static_cast<double>(in.streams) / static_cast<double>(left), most);
  return static_cast<double>(full) + std::min(1 / threads + kSharingCost, 1.0);
}

// Source pixels of the busiest stream, and the wait for the first and last band. A layer's margin
// shrinks from layer to layer of the network, so half the halo stands for all layers.
double Cost(const TileShapeInput& in, const TileGrid& grid) {
  const double tile = (grid.tile_size().width + double{1} * in.halo_px) *
                      (grid.tile_size().height + double{1} * in.halo_px);
  const double idle = in.row_bytes == 0 ? 0 : kBandCost;
  return Rounds(in, grid) * tile + idle * in.image.width * grid.tile_size().height;
}

}  // namespace

TileShape ChooseTileShape(const TileShapeInput& in) {
  const Size max_tile = {std::min(in.max_tile.width, in.image.width),
                         std::min(in.max_tile.height, in.image.height)};
  const int fewest_columns = TileGrid(in.image, max_tile).columns();
  // The rows left by this number of columns: more of them fill the streams with fewer bands.
  const auto fewest_rows = [&](int columns) {
    const int tallest =
        in.sees_all ? max_tile.height
                    : std::min(max_tile.height, MaxBandHeight(in, BandsFor(columns, in.streams)));
    return TileGrid(in.image, {max_tile.width, tallest}).rows();
  };
  const auto cut = [&](int columns, int rows) {
    return TileGrid(in.image,
                    {(in.image.width - 1) / columns + 1, (in.image.height - 1) / rows + 1});
  };

  const int more = in.sees_all ? 0 : std::min(2 * in.streams, kMaxMoreTiles);
  TileGrid best = cut(fewest_columns, fewest_rows(fewest_columns));
  for (int columns = fewest_columns; columns <= fewest_columns + more; ++columns) {
    const int fewest = fewest_rows(columns);
    for (int rows = fewest; rows <= fewest + more; ++rows) {
      const TileGrid grid = cut(columns, rows);
      const bool too_thin = (columns > fewest_columns && grid.tile_size().width < kMinTilePx) ||
                            (rows > fewest && grid.tile_size().height < kMinTilePx);
      if (!too_thin && Cost(in, grid) < Cost(in, best)) best = grid;
    }
  }

  const size_t band = BandBytes(in, best.tile_size().height);
  const int affordable = static_cast<int>(
      std::clamp<size_t>(in.budget_bytes / std::max<size_t>(band, 1), 2, best.rows() + 1));
  const int bands = std::min({BandsFor(best.columns(), in.streams), affordable, best.rows()});
  return {best.tile_size(), bands};
}

}  // namespace upscaled
