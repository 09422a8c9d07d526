// The costs of a tile without cuts by the image's edges: how backends choose the size of tiles.
#pragma once

#include <span>

#include "engine/base/geometry.h"
#include "engine/model/limits.h"
#include "engine/model/network.h"

namespace upscaled {

// A tile and its image: one of this size with other tiles all around it, or as given.
struct InnerTile {
  explicit InnerTile(Size size)
      : rect{kBorderPx, kBorderPx, size.width, size.height},
        image{size.width + 2 * kBorderPx, size.height + 2 * kBorderPx} {}
  InnerTile(const Rect& rect, Size image) : rect(rect), image(image) {}

  // Beyond the halo of any network in use; a multiple of all block sizes and periods.
  static constexpr int kBorderPx = 64 * 6 * 12;
  Rect rect;
  Size image;
};

// Covers the needs of tiles of this size at any place: a tile's regions depend on how it lies to
// the blocks of kernels.
inline InnerTile AnywhereTile(Size size) {
  return InnerTile({size.width + kMaxPeriodPx, size.height + kMaxPeriodPx});
}

// All of an image.
inline InnerTile WholeImage(Size image) { return {{0, 0, image.width, image.height}, image}; }

// The same for a network: tiles of one with reads anywhere in its layers are images of their own,
// the cells of engine/pipeline/cells.h.
InnerTile InnerTileOf(const Network& network, Size size);
InnerTile AnywhereTileOf(const Network& network, Size size);

// Covers the needs of an image's tiles of this size.
inline InnerTile AnywhereTile(Size tile, Size image) {
  return tile == image ? WholeImage(image) : AnywhereTile(tile);
}

// Multiply-adds of the direct algorithm for the computed part of each layer (TilePlan::regions).
double TileMacs(const Network& network, std::span<const Rect> regions);

}  // namespace upscaled
