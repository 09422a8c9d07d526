// Where a tile is computed, and where in a stream's memory its layers lie.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/backends/cuda/program.h"
#include "engine/base/geometry.h"
#include "engine/graph/tile_plan.h"
#include "engine/model/precision.h"

namespace upscaled::cuda {

// A tile and its image, in source pixels.
struct TilePlace {
  Size image;
  Rect tile;

  friend bool operator==(const TilePlace&, const TilePlace&) = default;
};

// A tile as kernels compute it. Rectangles are in the coordinates of whole layers for `place`;
// vectors are indexed as layers.
struct PlacedTile {
  // The place nearest to its image's corner with the same computation of every layer. So tiles
  // inside images of any size run as one graph or batch.
  TilePlace place;
  Rect source;                // pixels of place.image
  std::vector<Rect> regions;  // the computed pixels: inside the layer; empty if nothing needs it
  std::vector<Size> layers;   // sizes of the whole layers
  std::vector<Rect> partial_sum_rects;  // the global poolings', in order
  std::vector<Rect> rects;              // the pixels in each allocation, as Program::allocations
};

// `plan`: of program.network.
PlacedTile PlaceTile(const Program& program, const TilePlan& plan);

constexpr size_t StorageBytes(Precision precision) { return precision == Precision::kFast ? 2 : 4; }

// Bytes of each slot, for a batch of one.
std::vector<size_t> SlotBytes(const Program& program, const PlacedTile& plan, Precision precision);

}  // namespace upscaled::cuda
