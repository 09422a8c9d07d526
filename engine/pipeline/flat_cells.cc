#include "engine/pipeline/flat_cells.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/base/int_math.h"

namespace upscaled {
namespace {

// Areas of further blocks do not count as flat.
constexpr size_t kMaxBlocks = 64;

// The cells around [begin, end), as the first and the one behind the last.
std::pair<int, int> CellsOf(int begin, int end, int cell_px) {
  return {begin / cell_px, CeilDiv(end, cell_px)};
}

template <size_t kColourBytes>
bool Repeats(const ImageView& pixels, const ImageView& block, int block_px) {
  const size_t step = pixels.spec.pixel_bytes();
  for (int y = 0; y < pixels.height_px(); ++y) {
    const uint8_t* pixel = pixels.row(y);
    const uint8_t* const expected = block.row(y % block_px);
    for (int x = 0, u = 0; x < pixels.width_px(); ++x, pixel += step) {
      if (std::memcmp(pixel, expected + u * step, kColourBytes) != 0) return false;
      if (++u == block_px) u = 0;
    }
  }
  return true;
}

class Finder {
 public:
  Finder(const ImageView& rows, int first_row, const Rect& band, const CellGrid& grid)
      : rows_(rows),
        first_row_(first_row),
        block_px_(grid.block_px),
        cell_px_(grid.cell_px),
        left_(CeilDiv(-grid.input.x, cell_px_)),
        above_(CeilDiv(-grid.input.y, cell_px_)),
        right_(CeilDiv(grid.input.right(), cell_px_) - 1),
        below_(CeilDiv(grid.input.bottom(), cell_px_) - 1) {
    const auto [first, end] = CellsOf(first_row, first_row + rows.height_px(), cell_px_);
    all_ = {0, first, CeilDiv(rows.width_px(), cell_px_), end - first};
    numbers_.assign(static_cast<size_t>(all_.Area()), FlatCells::kNone);
    for (int row = 0; row < all_.height; ++row) NumberRow(row);
    if (!found_.blocks.empty()) FindNeighbourhoods();
    KeepBand(band);
  }

  FlatCells Take() { return std::move(found_); }

 private:
  int16_t* Row(int row) { return &numbers_[static_cast<size_t>(row) * all_.width]; }
  // The cell's pixels in `rows_`, in its coordinates.
  Rect CellInRows(int column, int row) const {
    return Intersect(
        {column * cell_px_, (all_.y + row) * cell_px_ - first_row_, cell_px_, cell_px_},
        {0, 0, rows_.width_px(), rows_.height_px()});
  }
  ImageView BlockAt(const Rect& cell) const {
    return rows_.Crop({cell.x, cell.y, block_px_, block_px_});
  }
  bool HasBlock(const Rect& cell) const {
    return cell.width >= block_px_ && cell.height >= block_px_ &&
           (first_row_ + cell.y) % block_px_ == 0;
  }

  // Gives the cells of a row with one repeated block its number, if they are enough for one of them
  // to be flat.
  void NumberRow(int row) {
    for (int begin = 0; begin < all_.width;) {
      const Rect first = CellInRows(begin, row);
      int end = begin + 1;
      if (HasBlock(first) && RepeatsBlock(rows_.Crop(first), BlockAt(first), block_px_)) {
        while (end < all_.width &&
               RepeatsBlock(rows_.Crop(CellInRows(end, row)), BlockAt(first), block_px_)) {
          ++end;
        }
        if (end - begin >= std::min(1 + std::min(left_, right_), all_.width)) {
          std::fill(Row(row) + begin, Row(row) + end, NumberOf(first));
        }
      }
      begin = end;
    }
  }

  int16_t NumberOf(const Rect& cell) {
    for (size_t i = 0; i < found_.blocks.size(); ++i) {
      const FlatCells::Block& known = found_.blocks[i];
      const ImageView block = BlockAt({known.x, known.y - first_row_, block_px_, block_px_});
      if (RepeatsBlock(BlockAt(cell), block, block_px_)) return static_cast<int16_t>(i);
    }
    if (found_.blocks.size() == kMaxBlocks) return FlatCells::kNone;
    found_.blocks.push_back({cell.x, first_row_ + cell.y});
    return static_cast<int16_t>(found_.blocks.size() - 1);
  }

  // Takes the number from cells next to one with another: along rows, then along columns.
  void FindNeighbourhoods() {
    for (int row = 0; row < all_.height; ++row) {
      KeepSurrounded(Row(row), all_.width, 1, left_, right_);
    }
    for (int x = 0; x < all_.width; ++x) {
      KeepSurrounded(&numbers_[x], all_.height, all_.width, above_, below_);
    }
  }
  void KeepSurrounded(int16_t* cells, int count, int step, int before, int after) {
    equal_.resize(static_cast<size_t>(count));  // how many up to here are equal
    for (int i = 0; i < count; ++i) {
      const bool same = i > 0 && cells[i * step] == cells[(i - 1) * step];
      equal_[i] = same ? equal_[i - 1] + 1 : 1;
    }
    for (int i = 0; i < count; ++i) {
      const int first = std::max(0, i - before), last = std::min(count - 1, i + after);
      if (equal_[last] < last - first + 1) cells[i * step] = FlatCells::kNone;
    }
  }

  void KeepBand(const Rect& band) {
    const auto [first, end] = CellsOf(band.y, band.bottom(), cell_px_);
    found_.cell_px = cell_px_;
    found_.cells = {0, first, all_.width, end - first};
    const int16_t* const begin = Row(first - all_.y);
    found_.block_of.assign(begin, begin + found_.cells.Area());
    for (int row = first; row < end; ++row) {
      for (int x = 0; x < all_.width; ++x) {
        const int16_t block = found_.BlockOf(x, row);
        if (block == FlatCells::kNone) continue;
        const Rect cell{x * cell_px_, row * cell_px_, cell_px_, cell_px_};
        found_.blocks[block].flat_px += Intersect(cell, band).Area();
      }
    }
  }

  const ImageView& rows_;
  const int first_row_;
  const int block_px_;
  const int cell_px_;
  const int left_, above_, right_, below_;  // how many cells around it a cell depends on
  Rect all_;                                // cells that have pixels in `rows_`
  std::vector<int16_t> numbers_;
  std::vector<int> equal_;
  FlatCells found_;
};

}  // namespace

FlatCells FindFlatCells(const ImageView& rows, int first_row, const Rect& band,
                        const CellGrid& grid) {
  return Finder(rows, first_row, band, grid).Take();
}

size_t FlatCellsBytes(int width_px, int rows, int cell_px) {
  const size_t columns = CeilDiv(width_px, cell_px), cell_rows = CeilDiv(rows, cell_px) + 1;
  return 2 * sizeof(int16_t) * columns * cell_rows + sizeof(int) * std::max(columns, cell_rows) +
         2 * sizeof(FlatCells::Block) * kMaxBlocks;
}

bool RepeatsBlock(const ImageView& pixels, const ImageView& block, int block_px) {
  return pixels.spec.type == SampleType::kU8 ? Repeats<kRgbChannels>(pixels, block, block_px)
                                             : Repeats<2 * kRgbChannels>(pixels, block, block_px);
}

}  // namespace upscaled
