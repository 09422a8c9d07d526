// What one tile needs: each layer's rectangle, and where in a stream's memory it lies.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/backends/cuda/program.h"
#include "engine/base/geometry.h"
#include "engine/model/precision.h"

namespace upscaled::cuda {

// A tile and the image that it lies in, in source pixels.
struct TilePlace {
  Size image;
  Rect tile;

  friend bool operator==(const TilePlace&, const TilePlace&) = default;
};

// Rectangles are in the coordinates of whole layers for `place`; vectors are indexed as layers.
struct TilePlan {
  // Where kernels compute the tile: the place nearest to its image's corner at which every layer
  // is computed in the same way. So tiles inside images of any size run as one graph or batch.
  TilePlace place;
  Rect source;                // pixels of place.image
  std::vector<Rect> regions;  // what is computed: inside the layer; empty if nothing needs it
  std::vector<Size> layers;   // sizes of the whole layers
  std::vector<Rect> shares;   // of the global poolings (PooledShare), in order
  std::vector<Rect> rects;    // what each allocation holds, as Program::allocations
};

// The pixels of the image that computing `tile` takes.
Rect SourceOf(const Program& program, const TilePlace& tile);

TilePlan PlanTile(const Program& program, const TilePlace& tile);

constexpr size_t StorageBytes(Precision precision) { return precision == Precision::kFast ? 2 : 4; }

// Bytes of each slot, for a batch of one.
std::vector<size_t> SlotBytes(const Program& program, const TilePlan& plan, Precision precision);

}  // namespace upscaled::cuda
