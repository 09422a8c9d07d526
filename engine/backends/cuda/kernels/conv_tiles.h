// How blocks share the groups of a convolution.
#pragma once

#include "engine/backends/cuda/kernels/conv_params.h"
#include "engine/base/int_math.h"

namespace upscaled::cuda {

// The groups of dst.region.
UPSCALED_HD inline Rect GroupsOf(const ConvShape& shape, const Rect& region) {
  const int x = FloorDiv(region.x + shape.crop, shape.out_stride);
  const int y = FloorDiv(region.y + shape.crop, shape.out_stride);
  const int last_x = FloorDiv(region.x + region.width - 1 + shape.crop, shape.out_stride);
  const int last_y = FloorDiv(region.y + region.height - 1 + shape.crop, shape.out_stride);
  return {x, y, last_x - x + 1, last_y - y + 1};
}

// A grid of rectangles over the groups, tile after tile of the batch.
struct BlockGrid {
  Rect groups;
  int width = 1, height = 1;  // a rectangle's
  int columns = 0, rows = 0;  // numbers of rectangles
  int count = 0;              // in all tiles
};

struct BlockPlace {
  int tile;
  int x, y;  // its first group
};

// Rectangles begin at multiples of `align_y` in the layer.
inline BlockGrid MakeBlockGrid(const ConvParams& params, int width, int height, int align_y = 1) {
  BlockGrid grid{GroupsOf(params.shape, params.dst.region), width, height};
  if (params.dst.region.empty()) return grid;
  const int above = grid.groups.y - FloorDiv(grid.groups.y, align_y) * align_y;
  grid.groups.y -= above;
  grid.groups.height += above;
  grid.columns = CeilDiv(grid.groups.width, width);
  grid.rows = CeilDiv(grid.groups.height, height);
  grid.count = grid.columns * grid.rows * params.tiles;
  return grid;
}

UPSCALED_HD inline BlockPlace PlaceOf(const BlockGrid& grid, int block) {
  const int row = block / grid.columns, tile = row / grid.rows;
  return {tile, grid.groups.x + (block - row * grid.columns) * grid.width,
          grid.groups.y + (row - tile * grid.rows) * grid.height};
}

}  // namespace upscaled::cuda
