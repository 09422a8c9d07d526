// How large each layer's output is: the common arithmetic of Validate, tiling and the backends.
#pragma once

#include <limits>
#include <vector>

#include "engine/base/geometry.h"
#include "engine/model/network.h"

namespace upscaled {

// Layers of larger sides are refused: all numbers computed from them stay inside an int.
inline constexpr int kMaxSidePx = std::numeric_limits<int>::max() / 4;

// Size of layer 0 for an image: pad_px on every side, then up to align_px on the right and bottom.
Size PaddedSize(const Network& network, Size image);

// Size of every layer's output for a whole image; index as Network::layers. Layer 0 is the padded
// input. The network's layers and inputs must be sound (see Network::Validate); a side below one
// pixel is given as it is. Sides stop just outside -kMaxSidePx..kMaxSidePx.
std::vector<Size> LayerSizes(const Network& network, Size image);

// The size of a layer's output, for a first input of this size.
Size OutputSize(const Layer& layer, Size input);

// Output pixels of each layer per pixel of the image, in the limit of a large one; 0 for layers of
// one value per channel (behind a global pooling). Index as Network::layers.
std::vector<double> LayerDensities(const Network& network);

// The layers of one value per channel for the whole image: a global pooling and all layers computed
// only from it. Index as Network::layers.
std::vector<bool> IsPerImage(const Network& network);

}  // namespace upscaled
