// Swift-SRGAN: SRGAN's generator of depthwise separable convolutions.
// Krishnan et al., "SwiftSRGAN - Rethinking Super-Resolution for Efficient and Real-time
// Inference", 2021; https://github.com/Koushik0901/Swift-SRGAN
#pragma once

#include "engine/model/architectures/network_builder.h"

namespace upscaled {

bool RecogniseSwiftSrgan(const TensorFile& file);
absl::StatusOr<int> SwiftSrganScale(const TensorFile& file);
void BuildSwiftSrgan(NetworkBuilder& builder);

}  // namespace upscaled
