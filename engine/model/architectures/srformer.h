// SRFormer.
// Zhou et al., "SRFormer: Permuted Self-Attention for Single Image Super-Resolution", 2023
#pragma once

#include "engine/model/architectures/network_builder.h"

namespace upscaled {

bool RecogniseSrFormer(const TensorFile& file);
absl::StatusOr<int> SrFormerScale(const TensorFile& file);
void BuildSrFormer(NetworkBuilder& builder);

}  // namespace upscaled
