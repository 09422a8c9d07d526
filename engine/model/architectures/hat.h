// HAT: groups of Swin's blocks. They also weigh channels by their means over the image, and each
// group has one block of windows with overlapping keys.
// Chen et al., "Activating More Pixels in Image Super-Resolution Transformer", 2023;
// https://github.com/XPixelGroup/HAT
#pragma once

#include "engine/model/architectures/network_builder.h"

namespace upscaled {

bool RecogniseHat(const TensorFile& file);
absl::StatusOr<int> HatScale(const TensorFile& file);
void BuildHat(NetworkBuilder& builder);

}  // namespace upscaled
