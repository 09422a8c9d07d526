// Networks of one plane: the luma goes through the network, the colour is resized next to it.
#pragma once

#include <string_view>

#include "engine/model/architectures/network_builder.h"

namespace upscaled {

// Whether the convolution NAME reads one plane.
bool IsForLuma(const TensorFile& file, std::string_view name);

// The luma of an RGB layer by BT.709, from its values as they are.
int Luma(NetworkBuilder& builder, int image);

// The RGB result: `luma`, and the differences of the image's channels from its own luma, resized by
// Catmull-Rom. Fails for scales above 7.
int WithColour(NetworkBuilder& builder, int image, int luma, int scale);

}  // namespace upscaled
