// SCUNet, for denoising: next to each attention in windows, convolutions of half of the channels.
// Zhang et al., "Practical Blind Image Denoising via Swin-Conv-UNet and Data Synthesis", 2023
#pragma once

#include "engine/model/architectures/network_builder.h"

namespace upscaled {

bool RecogniseScunet(const TensorFile& file);
absl::StatusOr<int> ScunetScale(const TensorFile& file);
void BuildScunet(NetworkBuilder& builder);

}  // namespace upscaled
