// How an image is cut into tiles: pure arithmetic.
#pragma once

#include <cstdint>

#include "engine/base/geometry.h"

namespace upscaled {

// Rows and columns of tiles, none above a maximum, that cover an image exactly. All tiles of a
// column are of one width and all of a row of one height. Only the last of each may be smaller:
// tiles of one image share as few shapes as possible. Numbered row by row.
class TileGrid {
 public:
  // Both sizes at least 1x1.
  TileGrid(Size image, Size max_tile);
  // One column of tiles of the image's full width, all of this height but the last.
  static TileGrid Bands(Size image, int height);

  Size image() const { return image_; }
  // The size of all tiles but the last ones.
  Size tile_size() const { return tile_; }
  int columns() const { return columns_; }
  int rows() const { return rows_; }
  int64_t count() const { return int64_t{columns_} * rows_; }

  Rect Tile(int column, int row) const;
  // The whole width of a row of tiles.
  Rect Band(int row) const;

 private:
  Size image_;
  Size tile_;
  int columns_;
  int rows_;
};

}  // namespace upscaled
