// All that is known of a tile before its pixels are: planned once, used by whoever handles it.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "engine/base/geometry.h"
#include "engine/model/network.h"

namespace upscaled {

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
  // The executable that made it, which alone may run it; compared, never used.
  const void* maker = nullptr;

  // The memory that it takes, as its owner holds it.
  size_t bytes() const;
};

// Plans `tile`. Blocks are of block_px[i] pixels (1 = none) and begin at block_origin_px[i] and its
// multiples from there, on both axes. An empty `block_px` means 1 everywhere, an empty
// `block_origin_px` 0.
TilePlan PlanTile(const Network& network, Size image, const Rect& tile,
                  std::span<const int> block_px = {}, std::span<const int> block_origin_px = {});

}  // namespace upscaled
