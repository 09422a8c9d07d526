// Covers the needed parts of a tile with few rectangles: pure arithmetic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/base/geometry.h"

namespace upscaled {

// The cost of a rectangle of a network's result: a polynomial of its sides, since each layer's
// margin around it is constant.
struct RectCost {
  double per_px = 0;
  double per_side_px = 0;  // of width plus height
  double fixed = 0;

  double Of(Size size) const {
    return per_px * static_cast<double>(size.Area()) +
           per_side_px * (double{1} * size.width + size.height) + fixed;
  }
  // The size at which squares of one, two and four times `side_px` cost this much.
  static RectCost Fit(int side_px, double one, double two, double four);
};

// A tile in rows and columns of cells: cell (x, y) covers [columns_px[x], columns_px[x + 1]) by
// [rows_px[y], rows_px[y + 1]). Both ascend and have two entries at least.
struct TileCells {
  std::vector<int> columns_px;
  std::vector<int> rows_px;
  std::vector<uint8_t> needed;  // cell by cell, row by row: whether it must be computed

  int columns() const { return static_cast<int>(columns_px.size()) - 1; }
  int rows() const { return static_cast<int>(rows_px.size()) - 1; }
};

// [begin, end), not empty, cut at the multiples of `cell_px`.
std::vector<int> CutAtCells(int begin, int end, int cell_px);

// Returns disjoint rectangles around all needed cells. Cuts the tile in two, then the parts, and so
// on, and keeps the cheapest cover. Parts without a needed cell cost nothing. Tiles of many cells
// are cut between some cells only. This bounds the time to a fraction of a millisecond. Uses up to
// kCellCoverBytes, plus about ten bytes per cell.
inline constexpr size_t kCellCoverBytes = size_t{160} << 10;
std::vector<Rect> CoverNeededCells(const TileCells& cells, const RectCost& cost);

}  // namespace upscaled
