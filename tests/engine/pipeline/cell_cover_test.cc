#include "engine/pipeline/cell_cover.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace upscaled {
namespace {

constexpr RectCost kAreaOnly{.per_px = 1};

// Cells of 8 pixels, as the rows of the drawing say: '#' must be computed.
TileCells Draw(const std::vector<std::string>& drawing) {
  TileCells cells;
  for (size_t x = 0; x <= drawing[0].size(); ++x)
    cells.columns_px.push_back(static_cast<int>(8 * x));
  for (size_t y = 0; y <= drawing.size(); ++y) cells.rows_px.push_back(static_cast<int>(8 * y));
  for (const std::string& row : drawing) {
    for (const char cell : row) cells.needed.push_back(cell == '#');
  }
  return cells;
}

Rect CellRect(const TileCells& cells, int x, int y) {
  return {cells.columns_px[x], cells.rows_px[y], cells.columns_px[x + 1] - cells.columns_px[x],
          cells.rows_px[y + 1] - cells.rows_px[y]};
}

double CostOf(const std::vector<Rect>& rects, const RectCost& cost) {
  double sum = 0;
  for (const Rect& r : rects) sum += cost.Of({r.width, r.height});
  return sum;
}

TEST(RectCost, IsThePolynomialThroughThreeSquares) {
  const RectCost cost{.per_px = 7, .per_side_px = 30, .fixed = 1000};
  const auto of = [&](int side) { return cost.Of({side, side}); };
  const RectCost fit = RectCost::Fit(24, of(24), of(48), of(96));
  EXPECT_NEAR(fit.per_px, 7, 1e-9);
  EXPECT_NEAR(fit.per_side_px, 30, 1e-9);
  EXPECT_NEAR(fit.fixed, 1000, 1e-6);
}

TEST(CellCover, LeavesAWholeTileWhole) {
  const TileCells cells = Draw({"###", "###"});
  EXPECT_EQ(CoverNeededCells(cells, kAreaOnly), (std::vector<Rect>{{0, 0, 24, 16}}));
}

TEST(CellCover, IsEmptyWhereNothingIsNeeded) {
  EXPECT_TRUE(CoverNeededCells(Draw({"...", "..."}), kAreaOnly).empty());
}

TEST(CellCover, TrimsToWhatIsNeeded) {
  const TileCells cells = Draw({".....", "..#..", "..##.", "....."});
  EXPECT_EQ(CoverNeededCells(cells, {.per_px = 1, .fixed = 1000}),
            (std::vector<Rect>{{16, 8, 16, 16}}));
}

TEST(CellCover, CutsAFrameInFour) {
  const TileCells cells = Draw({"######", "#....#", "#....#", "#....#", "######"});
  const std::vector<Rect> rects = CoverNeededCells(cells, {.per_px = 1, .fixed = 1});
  EXPECT_EQ(rects.size(), 4u);
  EXPECT_EQ(CostOf(rects, kAreaOnly), 18 * 64);
}

TEST(CellCover, CutsNothingWhereHalosCostMore) {
  const TileCells cells = Draw({"##", "#."});
  EXPECT_EQ(CoverNeededCells(cells, {.per_px = 1, .per_side_px = 4}).size(), 2u);
  EXPECT_EQ(CoverNeededCells(cells, {.per_px = 1, .per_side_px = 40}).size(), 1u);
}

TEST(CellCover, CoversEveryNeededCellOnceForNoMoreThanTheTile) {
  std::mt19937 random(1);
  const auto any = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  for (int round = 0; round < 60; ++round) {
    TileCells cells{{any(0, 9)}, {any(0, 9)}, {}};
    for (int i = any(1, 50); i > 0; --i) {
      cells.columns_px.push_back(cells.columns_px.back() + any(1, 8));
    }
    for (int i = any(1, 50); i > 0; --i) {
      cells.rows_px.push_back(cells.rows_px.back() + any(1, 8));
    }
    const Rect disc{any(0, 50), any(0, 50), any(0, 20), 0};
    for (int y = 0; y < cells.rows(); ++y) {
      for (int x = 0; x < cells.columns(); ++x) {
        const int dx = x - disc.x, dy = y - disc.y;
        cells.needed.push_back(dx * dx + dy * dy < disc.width * disc.width || any(0, 300) == 0);
      }
    }
    const RectCost cost{.per_px = 1, .per_side_px = 1.0 * any(0, 30), .fixed = 1.0 * any(0, 300)};
    const std::vector<Rect> rects = CoverNeededCells(cells, cost);
    const Rect tile{0, 0, cells.columns_px.back(), cells.rows_px.back()};
    EXPECT_LE(CostOf(rects, cost), cost.Of({tile.width, tile.height}));
    for (int y = 0; y < cells.rows(); ++y) {
      for (int x = 0; x < cells.columns(); ++x) {
        const Rect cell = CellRect(cells, x, y);
        const auto holding = std::ranges::count_if(
            rects, [&](const Rect& r) { return !Intersect(r, cell).empty(); });
        EXPECT_LE(holding, 1);
        if (cells.needed[static_cast<size_t>(y) * cells.columns() + x]) {
          EXPECT_EQ(holding, 1);
        }
      }
    }
  }
}

}  // namespace
}  // namespace upscaled
