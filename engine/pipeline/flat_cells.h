// Finds the areas of one colour, or more generally of one repeated block of pixels: the result of a
// network over an area of one colour is such an area.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/base/geometry.h"
#include "engine/image/image.h"

namespace upscaled {

// Square cells over an image, from its corner on.
struct CellGrid {
  int cell_px = 0;   // a multiple of block_px
  int block_px = 1;  // of the blocks that flat areas repeat, which begin at multiples of that
  Rect input;        // what results in {0, 0, cell_px, cell_px} depend on, all sides being far
};

// The cells of a band, a rectangle of the image's full width.
struct FlatCells {
  static constexpr int16_t kNone = -1;
  struct Block {
    int x = 0, y = 0;     // where it is found first, in the image
    int64_t flat_px = 0;  // what its flat cells cover of the band
  };

  int cell_px = 0;
  Rect cells;  // in which the band lies
  // Cell by cell, row by row: the number of the block that all pixels behind a result there repeat,
  // or kNone.
  std::vector<int16_t> block_of;
  std::vector<Block> blocks;

  int16_t BlockOf(int column, int row) const {
    return block_of[static_cast<size_t>(row - cells.y) * cells.width + (column - cells.x)];
  }
};

// `rows` holds the image's rows from `first_row` on for the band's result, in whole blocks except
// at the image's end. Alpha is not looked at.
FlatCells FindFlatCells(const ImageView& rows, int first_row, const Rect& band,
                        const CellGrid& grid);
// Bytes for this many rows, all included.
size_t FlatCellsBytes(int width_px, int rows, int cell_px);

// Whether `pixels` repeat the block, of this size or larger, colour by colour.
bool RepeatsBlock(const ImageView& pixels, const ImageView& block, int block_px);

}  // namespace upscaled
