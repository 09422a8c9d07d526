// All facts about a tile before its pixels are known: planned once, used by all its handlers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/base/geometry.h"
#include "engine/graph/tile_geometry.h"
#include "engine/model/network.h"

namespace upscaled {

// The work of planning, queueing and starting a tile of any size, in multiply-adds: an estimate of
// 15 us at a core's speed for general-2x.
inline constexpr int64_t kTileOverheadCost = 2'000'000;

// Rectangles of layers are in the layer's whole-image coordinates, where (0, 0) is its first output
// for the whole padded image; vectors over layers are indexed as Network::layers of the tile's
// program; it may have other layers than its network.
struct TilePlan {
  Rect tile;   // the pixels to compute, in source pixels, inside the image
  Size image;  // the whole image, in source pixels
  Rect input;  // the source pixels that all of this takes, inside the image
  // Pixels each layer must compute: the union of its consumers' needs, rounded outward to whole
  // blocks and clipped to the layer. Empty for an unneeded layer. Zero padding lies outside:
  // kernels read zeros there. [0] is in padded-input coordinates (subtract pad_px for image
  // coordinates).
  std::vector<Rect> regions;
  std::vector<Size> layer_sizes;  // the whole layers'
  // For each global average pooling, in order (ListPoolings): this tile's part of its input to add
  // up, inside its region.
  std::vector<Rect> partial_sum_rects;
  // For each pass over the image (one for each global average pooling, and the one for the result)
  // its cost without activations of earlier passes: the multiply-adds of the direct algorithm in
  // `regions`, halo included, and kTileOverheadCost.
  std::vector<int64_t> pass_costs;
  // The executable it comes from, the only one to run it; compared, never used.
  const void* maker = nullptr;

  // Its memory, held by its owner.
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
