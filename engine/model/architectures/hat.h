// HAT: groups of Swin's blocks that also weigh channels by their means over the image, each group
// with one block of windows whose keys overlap.
// Chen et al., "Activating More Pixels in Image Super-Resolution Transformer", 2023;
// https://github.com/XPixelGroup/HAT
#pragma once

#include "engine/model/architectures/network_builder.h"

namespace upscaled {

bool RecogniseHat(const TensorFile& file);
absl::StatusOr<int> HatScale(const TensorFile& file);
void BuildHat(NetworkBuilder& builder);

}  // namespace upscaled
