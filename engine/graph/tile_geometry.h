// What one tile of an image needs from every layer of a network: pure arithmetic, shared by all
// backends, so that they agree on every pixel.
#pragma once

#include <span>
#include <vector>

#include "engine/base/geometry.h"
#include "engine/model/network.h"
#include "engine/model/shapes.h"  // LayerSizes

namespace upscaled {

// What each layer must compute for `tile` (source pixels, inside the image): rectangles in that
// layer's whole-image coordinates, where (0, 0) is its first output for the whole padded image.
// A layer's rectangle is the union of what its consumers need, rounded outward to whole blocks and
// clipped to LayerSizes. Blocks are of block_px[i] pixels (1 = none) and begin at
// block_origin_px[i] and its multiples from there, on both axes. An empty `block_px` means 1
// everywhere, an empty `block_origin_px` 0. Index as Network::layers; [0] is in padded-input
// coordinates (subtract pad_px for image coordinates).
//
// Zero padding is outside the rectangles: whoever computes a layer reads zeros there. Of what feeds
// a global pooling the tile's PooledShare is needed, too.
std::vector<Rect> LayerRegions(const Network& network, Size image, const Rect& tile,
                               std::span<const int> block_px,
                               std::span<const int> block_origin_px = {});

// Where the block begins that holds position `at`.
int BlockBegin(int at, int block_px, int block_origin_px);

// Positions along one axis, both ends included.
struct PixelRange {
  int first = 0;
  int last = 0;
};

// What `layer` reads of input number `input`, `in_side` pixels long, along one axis to compute
// `out`; may exceed it (a convolution's zero padding). Not for global poolings and factors of one
// value per channel.
PixelRange InputRange(const Layer& layer, PixelRange out, int in_side, size_t input = 0);

// The input position that position `at` of a kPad layer's result repeats along one axis; outside
// the input for a constant.
int PadSource(const Layer& layer, int at, int in_side);

// The source pixels that rectangle `input_region` of layer 0 reads, inside the image: pixels of
// the replicated border count as the edge pixels they copy.
Rect SourceRect(const Network& network, const Rect& input_region, Size image);

}  // namespace upscaled
