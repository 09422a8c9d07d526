// Swin2SR.
// Conde et al., "Swin2SR: SwinV2 Transformer for Compressed Image Super-Resolution and
// Restoration", 2022
#pragma once

#include "engine/model/architectures/network_builder.h"

namespace upscaled {

bool RecogniseSwin2Sr(const TensorFile& file);
absl::StatusOr<int> Swin2SrScale(const TensorFile& file);
void BuildSwin2Sr(NetworkBuilder& builder);

}  // namespace upscaled
