// What one tile needs: each layer's rectangles, and which of a few buffers holds them.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "engine/base/geometry.h"
#include "engine/model/network.h"
#include "engine/model/precision.h"

namespace upscaled::opencl {

// Vectors are indexed as Network::layers; rectangles are in the layer's whole-image coordinates.
struct TilePlan {
  std::vector<Rect> regions;  // what is computed: inside the layer; empty if nothing needs it
  // What a layer's tensor holds: its region and, around it, what consumers read outside the layer.
  // A kernel that computes whole blocks reads them whole, whatever of them lies in the layer.
  std::vector<Rect> rects;
  std::vector<Size> layers;  // sizes of the whole layers
};

TilePlan PlanTile(const Network& network, std::span<const int> block_px, Size image,
                  const Rect& tile);

// What computing `out` of a layer, in whole blocks, reads of an input of this size; may exceed it.
Rect RectRead(const Layer& layer, int block_px, const Rect& out, Size in);

// Bytes of each slot for this tile; `slots`: of each layer.
std::vector<size_t> SlotBytes(const Network& network, std::span<const int> slots,
                              const TilePlan& plan, Precision precision);

}  // namespace upscaled::opencl
