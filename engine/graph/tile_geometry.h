// The pixels of its inputs a layer reads: pure arithmetic, shared by all backends, so they agree on
// every pixel.
#pragma once

#include "engine/base/geometry.h"
#include "engine/model/network.h"
#include "engine/model/op.h"

namespace upscaled {

// Returns the begin of the block around position `at`, along one axis.
int BlockBegin(int at, int block_px, int origin_px);

// A place where a layer's blocks begin: there, and every block's side away from there.
struct BlockOrigin {
  int x_px = 0;
  int y_px = 0;
};

// Returns `r` rounded outward to whole blocks.
Rect RoundToBlocks(const Rect& r, int block_px, BlockOrigin origin);

// The pixels `layer` reads of input number `input`, `in_side` pixels long, along an axis for `out`;
// may exceed it (a convolution's zero padding). Not for global poolings and factors of one value
// per channel.
PixelRange InputRange(const Layer& layer, Axis axis, PixelRange out, int in_side, size_t input = 0);

// Whether input number `input`, of this size, holds values for the whole image; every pixel of the
// layer takes all of them.
bool ReadsPerImage(const Layer& layer, size_t input, Size in_size);

// The part of input number `input`, of size `in_size`, for `layer` to compute `out`; empty for a
// global pooling with a given result.
Rect InputRegion(const Layer& layer, const Rect& out, Size in_size, size_t input);

// The input position repeated at position `at` of a kPad layer's result along one axis; outside the
// input for a constant.
int PadSource(const Layer& layer, int at, int in_side);

// The source pixels of rectangle `input_region` of layer 0, inside the image: pixels of the
// replicated border count as the edge pixels they copy.
Rect SourceRect(const Network& network, const Rect& input_region, Size image);

}  // namespace upscaled
