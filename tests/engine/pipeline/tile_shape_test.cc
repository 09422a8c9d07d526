#include "engine/pipeline/tile_shape.h"

#include <gtest/gtest.h>

#include <random>

#include "engine/pipeline/tile_grid.h"

namespace upscaled {
namespace {

TileShapeInput Input(Size image, Size max_tile, int streams) {
  TileShapeInput input;
  input.image = image;
  input.max_tile = max_tile;
  input.halo_px = 7;
  input.streams = streams;
  input.row_bytes = 15 * static_cast<size_t>(image.width);
  input.halo_bytes = 14 * 3 * static_cast<size_t>(image.width);
  input.budget_bytes = size_t{64} << 20;
  return input;
}

int64_t TileCount(const TileShapeInput& input) {
  return TileGrid(input.image, ChooseTileShape(input).tile).count();
}

TEST(ChooseTileShape, GivesEveryStreamTheSameWork) {
  for (const int streams : {1, 2, 3, 4, 6}) {
    for (const Size max_tile : {Size{400, 400}, Size{512, 512}, Size{2048, 2048}}) {
      const int64_t count = TileCount(Input({960, 540}, max_tile, streams));
      EXPECT_EQ(count % streams, 0) << streams << " streams, " << max_tile.width;
      EXPECT_GE(count, streams);
    }
  }
}

// Bands of two columns would be so low that halos cost as much as the tiles.
TEST(ChooseTileShape, ManyStreamsGetColumnsRatherThanThinBands) {
  TileShapeInput input = Input({1920, 1080}, {960, 540}, 64);
  input.halo_px = 20;
  input.row_bytes *= 4;
  const TileShape shape = ChooseTileShape(input);
  EXPECT_GT(shape.tile.height, 3 * kMinTilePx / 2);
  EXPECT_GE(TileCount(input), 64);
  const size_t band = input.halo_bytes + input.row_bytes * static_cast<size_t>(shape.tile.height);
  EXPECT_LE(band * static_cast<size_t>(shape.bands), input.budget_bytes);
}

TEST(ChooseTileShape, LeavesTinyImagesWhole) {
  EXPECT_EQ(ChooseTileShape(Input({1, 1}, {256, 256}, 8)).tile, (Size{1, 1}));
  EXPECT_EQ(ChooseTileShape(Input({40, 33}, {256, 256}, 8)).tile, (Size{40, 33}));
}

TEST(ChooseTileShape, SplitsASmallImageAmongTwoStreams) {
  EXPECT_EQ(TileCount(Input({100, 100}, {256, 256}, 2)), 2);
}

TEST(ChooseTileShape, CutsAnImageInMemoryForStreamsAlone) {
  TileShapeInput input = Input({367, 250}, {512, 512}, 1);
  EXPECT_GT(TileCount(input), 1) << "so that a second band is computed while the first is written";
  input.row_bytes = input.halo_bytes = input.budget_bytes = 0;
  EXPECT_EQ(TileCount(input), 1);
  input.streams = 2;
  EXPECT_EQ(TileCount(input), 2);
}

TEST(ChooseTileShape, LeavesTilesWholeThatStreamsShareWhereTheirHalosAreWide) {
  TileShapeInput input = Input({480, 270}, {512, 512}, 2);
  input.row_bytes = input.halo_bytes = input.budget_bytes = 0;
  input.halo_px = 34;
  EXPECT_EQ(TileCount(input), 2);
  input.min_share_px = 48;
  EXPECT_EQ(TileCount(input), 1);
  input.halo_px = 7;
  EXPECT_EQ(TileCount(input), 2) << "which costs less than to wait for each other";
  input.halo_px = 34;
  input.image = {90, 512};
  EXPECT_EQ(TileCount(input), 2) << "as it is too narrow";
  input.image = {512, 512};
  input.streams = 16;
  const int64_t tiles = TileCount(input);
  EXPECT_GT(tiles, 1) << "more streams than one tile has room for";
  EXPECT_LT(tiles, 16);
}

TEST(ChooseTileShape, LeavesImagesWholeOfWhichATileSeesAll) {
  TileShapeInput input = Input({100, 100}, {256, 256}, 2);
  input.sees_all = true;
  EXPECT_EQ(TileCount(input), 1);
  input.max_tile = {100, 50};
  EXPECT_EQ(TileCount(input), 2);
}

TEST(ChooseTileShape, NeverPassesTheMaximum) {
  const uint32_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 300; ++round) {
    const auto side = [&](int limit) { return 1 + static_cast<int>(random() % limit); };
    const TileShapeInput input = Input({side(3000), side(3000)}, {side(600), side(600)}, side(20));
    const TileShape shape = ChooseTileShape(input);
    EXPECT_LE(shape.tile.width, input.max_tile.width);
    EXPECT_LE(shape.tile.height, input.max_tile.height);
    EXPECT_GE(shape.bands, 1);
    EXPECT_LE(shape.bands, TileGrid(input.image, shape.tile).rows());
  }
}

TEST(ChooseTileShape, KeepsTwoTilesAStreamInFlight) {
  const TileShapeInput input = Input({1000, 4000}, {512, 512}, 4);
  const TileShape shape = ChooseTileShape(input);
  const TileGrid grid(input.image, shape.tile);
  EXPECT_GE((shape.bands - 1) * grid.columns(), 2 * input.streams);
}

TEST(ChooseTileShape, KeepsBandsWithinTheBudget) {
  for (const int width : {500, 5000, 50000}) {
    TileShapeInput input = Input({width, 20000}, {512, 512}, 2);
    input.budget_bytes = size_t{16} << 20;
    const TileShape shape = ChooseTileShape(input);
    const size_t band = input.halo_bytes + input.row_bytes * shape.tile.height;
    if (shape.tile.height > kMinTilePx || shape.bands > 2) {
      EXPECT_LE(band * shape.bands, input.budget_bytes) << width;
    } else {
      EXPECT_EQ(width, 50000);
    }
    EXPECT_GE(shape.tile.height, kMinTilePx);
  }
}

TEST(ChooseTileShape, DoesNotHoldMoreOfATallerImage) {
  const TileShape shape = ChooseTileShape(Input({2000, 20000}, {512, 512}, 2));
  const TileShape taller = ChooseTileShape(Input({2000, 200000}, {512, 512}, 2));
  EXPECT_LE(taller.bands * taller.tile.height, 2 * shape.bands * shape.tile.height);
}

}  // namespace
}  // namespace upscaled
