#include "engine/pipeline/tile_grid.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace upscaled {
namespace {

TEST(TileGrid, CutsEvenly) {
  const TileGrid grid({960, 540}, {512, 512});
  EXPECT_EQ(grid.columns(), 2);
  EXPECT_EQ(grid.rows(), 2);
  EXPECT_EQ(grid.count(), 4);
  EXPECT_EQ(grid.Tile(1, 1), (Rect{480, 270, 480, 270}));
  EXPECT_EQ(grid.Band(1), (Rect{0, 270, 960, 270}));
}

TEST(TileGrid, BandsAreOfOneHeight) {
  const TileGrid bands = TileGrid::Bands({10, 50}, 24);
  EXPECT_EQ(bands.count(), 3);
  EXPECT_EQ(bands.Tile(0, 1), (Rect{0, 24, 10, 24}));
  EXPECT_EQ(bands.Band(2), (Rect{0, 48, 10, 2}));
  EXPECT_EQ(TileGrid::Bands({10, 5}, 24).Band(0), (Rect{0, 0, 10, 5}));
}

TEST(TileGrid, GivesTheRestToTheLastTile) {
  const TileGrid grid({10, 1}, {4, 4});
  EXPECT_EQ(grid.tile_size(), (Size{4, 1}));
  EXPECT_EQ(grid.Tile(2, 0), (Rect{8, 0, 2, 1}));
}

TEST(TileGrid, CoversEveryPixelOnceWithinTheMaximum) {
  const uint32_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 300; ++round) {
    const auto side = [&](int limit) { return 1 + static_cast<int>(random() % limit); };
    const Size image{side(70), side(70)}, max_tile{side(80), side(80)};
    const TileGrid grid(image, max_tile);
    std::vector<int> covered(static_cast<size_t>(image.Area()));
    for (int row = 0; row < grid.rows(); ++row) {
      EXPECT_EQ(grid.Band(row).y, grid.Tile(grid.columns() - 1, row).y);
      for (int column = 0; column < grid.columns(); ++column) {
        const Rect tile = grid.Tile(column, row);
        ASSERT_FALSE(tile.empty());
        ASSERT_LE(tile.width, max_tile.width);
        ASSERT_LE(tile.height, max_tile.height);
        ASSERT_TRUE((Rect{0, 0, image.width, image.height}).Contains(tile));
        for (int y = tile.y; y < tile.bottom(); ++y) {
          for (int x = tile.x; x < tile.right(); ++x) ++covered[y * image.width + x];
        }
      }
    }
    for (const int times : covered) ASSERT_EQ(times, 1);
    // As few as the maximum allows.
    EXPECT_EQ(grid.columns(), (image.width + max_tile.width - 1) / max_tile.width);
    EXPECT_EQ(grid.rows(), (image.height + max_tile.height - 1) / max_tile.height);
  }
}

}  // namespace
}  // namespace upscaled
