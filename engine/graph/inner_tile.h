// The costs of a tile where nothing cuts it off: how backends choose the size of tiles.
#pragma once

#include <span>

#include "engine/base/geometry.h"
#include "engine/model/limits.h"
#include "engine/model/network.h"

namespace upscaled {

// A tile and the image that it lies in: one of this size with other tiles all around it, or as
// given.
struct InnerTile {
  explicit InnerTile(Size size)
      : rect{kBorderPx, kBorderPx, size.width, size.height},
        image{size.width + 2 * kBorderPx, size.height + 2 * kBorderPx} {}
  InnerTile(const Rect& rect, Size image) : rect(rect), image(image) {}

  // Beyond what any network in use reads around a tile; a multiple of all block sizes and periods.
  static constexpr int kBorderPx = 64 * 6 * 12;
  Rect rect;
  Size image;
};

// Covers what tiles of this size need wherever they lie: a tile's regions depend on how it lies to
// the blocks of kernels.
inline InnerTile AnywhereTile(Size size) {
  return InnerTile({size.width + kMaxPeriodPx, size.height + kMaxPeriodPx});
}

// All of an image.
inline InnerTile WholeImage(Size image) { return {{0, 0, image.width, image.height}, image}; }

// The same for a network: tiles of one that may read its layers anywhere are images of their own,
// the cells of engine/pipeline/cells.h.
InnerTile InnerTileOf(const Network& network, Size size);
InnerTile AnywhereTileOf(const Network& network, Size size);

// Covers what the tiles of this size of an image need.
inline InnerTile AnywhereTile(Size tile, Size image) {
  return tile == image ? WholeImage(image) : AnywhereTile(tile);
}

// Multiply-adds of the direct algorithm for what is computed of each layer (TilePlan::regions).
double TileMacs(const Network& network, std::span<const Rect> regions);

}  // namespace upscaled
