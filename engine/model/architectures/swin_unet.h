// waifu2x's swin_unet as nunif trains and stores it: a U-Net of Swin's blocks, without LayerNorm
// or, if wide, with it; x1, x2, x4. https://github.com/nagadomi/nunif
#pragma once

#include "engine/model/architectures/network_builder.h"

namespace upscaled {

bool RecogniseSwinUnet(const TensorFile& file);
absl::StatusOr<int> SwinUnetScale(const TensorFile& file);
void BuildSwinUnet(NetworkBuilder& builder);

}  // namespace upscaled
