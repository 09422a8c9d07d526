#include "engine/pipeline/tile_grid.h"

#include <algorithm>

#include "engine/base/check.h"
#include "engine/base/int_math.h"

namespace upscaled {
namespace {

// The smallest part with as few parts of `extent` as `max_part`. Since it is not larger than
// `max_part`, it never needs fewer parts, so no part is empty.
int EvenPart(int extent, int max_part) { return CeilDiv(extent, CeilDiv(extent, max_part)); }

}  // namespace

TileGrid::TileGrid(Size image, Size max_tile) : image_(image) {
  UPSCALED_CHECK(image.width > 0 && image.height > 0);
  UPSCALED_CHECK(max_tile.width > 0 && max_tile.height > 0);
  tile_ = {EvenPart(image.width, max_tile.width), EvenPart(image.height, max_tile.height)};
  columns_ = CeilDiv(image.width, tile_.width);
  rows_ = CeilDiv(image.height, tile_.height);
}

TileGrid TileGrid::Bands(Size image, int height) {
  TileGrid bands(image, image);
  bands.tile_.height = std::min(height, image.height);
  bands.rows_ = CeilDiv(image.height, bands.tile_.height);
  return bands;
}

Rect TileGrid::Tile(int column, int row) const {
  const int x = column * tile_.width, y = row * tile_.height;
  return {x, y, std::min(tile_.width, image_.width - x), std::min(tile_.height, image_.height - y)};
}

Rect TileGrid::Band(int row) const {
  const Rect first = Tile(0, row);
  return {0, first.y, image_.width, first.height};
}

}  // namespace upscaled
