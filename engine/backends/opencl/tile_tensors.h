// Which part of each layer a tile's tensors hold, and which of a few buffers holds them.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "engine/base/geometry.h"
#include "engine/graph/tile_plan.h"
#include "engine/model/network.h"
#include "engine/model/precision.h"

namespace upscaled::opencl {

// Returns the rectangle of each layer's tensor: the plan's region, plus all pixels its consumers
// read outside the layer. Kernels for whole blocks of block_px[i] pixels read whole blocks, even
// beyond the layer's edge.
std::vector<Rect> TensorRects(const Network& network, std::span<const int> block_px,
                              const TilePlan& plan);

// The part of an input of this size that `out` of a layer, in whole blocks, reads; may exceed it.
Rect RectRead(const Layer& layer, int block_px, const Rect& out, Size in);

// Bytes of each slot for tensors of these rectangles; `slots`: of each layer.
std::vector<size_t> SlotBytes(const Network& network, std::span<const int> slots,
                              std::span<const Rect> rects, Precision precision);

}  // namespace upscaled::opencl
