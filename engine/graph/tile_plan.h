// All that is known of a tile before its pixels are: planned once, used by whoever handles it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/base/geometry.h"
#include "engine/graph/tile_geometry.h"
#include "engine/model/network.h"

namespace upscaled {

// The work of planning, queueing and starting a tile, whatever its size, in multiply-adds: an
// estimate of 15 us, in which a core does so many of general-2x's.
inline constexpr int64_t kTileOverheadCost = 2'000'000;

// Rectangles of layers are in the layer's whole-image coordinates, where (0, 0) is its first output
// for the whole padded image; vectors over layers are indexed as Network::layers of the program
// that the tile is planned for, which may have other layers than the network it was compiled from.
struct TilePlan {
  Rect tile;   // the pixels to compute, in source pixels, inside the image
  Size image;  // the whole image, in source pixels
  Rect input;  // the source pixels that all of this takes, inside the image
  // Pixels each layer must compute: the union of what its consumers need, rounded outward to whole
  // blocks and clipped to the layer. Empty where nothing needs the layer. Zero padding lies
  // outside: whoever computes a layer reads zeros there. [0] is in padded-input coordinates
  // (subtract pad_px for image coordinates).
  std::vector<Rect> regions;
  std::vector<Size> layer_sizes;  // the whole layers'
  // For each global average pooling, in order (ListPoolings): the part of its input that this
  // tile adds up, inside its region.
  std::vector<Rect> partial_sum_rects;
  // For each pass over the image (one for each global average pooling, and the one for the result)
  // what it costs where nothing is kept of those before: the multiply-adds of the direct algorithm
  // in `regions`, which hold the halo, and kTileOverheadCost.
  std::vector<int64_t> pass_costs;
  // The executable that made it, which alone may run it; compared, never used.
  const void* maker = nullptr;

  // The memory that it takes, as its owner holds it.
  size_t bytes() const;
  // The cost of pass number `pass`; `cached`: it goes on where the one before it ended.
  int64_t PassCost(size_t pass, bool cached) const;
  // The cost of all passes.
  int64_t Cost(bool cached) const;
};

// Plans `tile`. Blocks are of block_px[i] pixels on both axes (1 = none). An empty `block_px` means
// 1 everywhere, an empty `block_origins` (0, 0).
TilePlan PlanTile(const Network& network, Size image, const Rect& tile,
                  std::span<const int> block_px = {},
                  std::span<const BlockOrigin> block_origins = {});

}  // namespace upscaled
