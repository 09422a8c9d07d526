// SRResNet without batch normalisation, as BasicSR has it (MSRResNet).
// Ledig et al., "Photo-Realistic Single Image Super-Resolution Using a Generative Adversarial
// Network", 2017; https://github.com/XPixelGroup/BasicSR
#pragma once

#include "engine/model/architectures/network_builder.h"

namespace upscaled {

bool RecogniseSrResNet(const TensorFile& file);
absl::StatusOr<int> SrResNetScale(const TensorFile& file);
void BuildSrResNet(NetworkBuilder& builder);

}  // namespace upscaled
