// Cascaded U-Nets with squeeze and excite: waifu2x's cunet, and Real-CUGAN, the same except for its
// border.
// Xin Jie, https://github.com/nagadomi/waifu2x;
// https://github.com/bilibili/ailab/tree/main/Real-CUGAN
#pragma once

#include "engine/model/architectures/network_builder.h"

namespace upscaled {

bool RecogniseCunet(const TensorFile& file);
// Takes scales above 1, unless nunif wrote the file: waifu2x's are only published so.
bool RecogniseCugan(const TensorFile& file);
absl::StatusOr<int> CunetScale(const TensorFile& file);
void BuildCunet(NetworkBuilder& builder);  // what lies past the edge is its pixels, repeated
void BuildCugan(NetworkBuilder& builder);  // what lies past the edge is reflected

}  // namespace upscaled
