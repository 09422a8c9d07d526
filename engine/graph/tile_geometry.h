// Which pixels of its inputs a layer reads: pure arithmetic, shared by all backends, so that they
// agree on every pixel.
#pragma once

#include "engine/base/geometry.h"
#include "engine/model/network.h"
#include "engine/model/op.h"

namespace upscaled {

// Returns where the block begins that holds position `at`, along one axis.
int BlockBegin(int at, int block_px, int origin_px);

// A place where a layer's blocks begin: there, and every block's side away from there.
struct BlockOrigin {
  int x_px = 0;
  int y_px = 0;
};

// Returns `r` rounded outward to whole blocks.
Rect RoundToBlocks(const Rect& r, int block_px, BlockOrigin origin);

// The pixels that `layer` reads of input number `input`, `in_side` pixels long, along an axis for
// `out`; may exceed it (a convolution's zero padding). Not for global poolings and factors of one
// value per channel.
PixelRange InputRange(const Layer& layer, Axis axis, PixelRange out, int in_side, size_t input = 0);

// Whether input number `input`, of this size, holds values for the whole image, all of which every
// pixel of the layer takes.
bool ReadsPerImage(const Layer& layer, size_t input, Size in_size);

// The part of input number `input`, of size `in_size`, that `layer` reads to compute `out`; empty
// for a global pooling, whose result is given.
Rect InputRegion(const Layer& layer, const Rect& out, Size in_size, size_t input);

// The input position that position `at` of a kPad layer's result repeats along one axis; outside
// the input for a constant.
int PadSource(const Layer& layer, int at, int in_side);

// The source pixels that rectangle `input_region` of layer 0 reads, inside the image: pixels of
// the replicated border count as the edge pixels they copy.
Rect SourceRect(const Network& network, const Rect& input_region, Size image);

}  // namespace upscaled
