// EDSR and RCAN: a head, residual blocks, and enlarging convolutions with pixel shuffles.
// Lim et al., "Enhanced Deep Residual Networks for Single Image Super-Resolution", 2017.
// Zhang et al., "Image Super-Resolution Using Very Deep Residual Channel Attention Networks", 2018.
#pragma once

#include "engine/model/architectures/network_builder.h"

namespace upscaled {

// Both in the spelling of their authors and in BasicSR's.
bool RecogniseEdsr(const TensorFile& file);
absl::StatusOr<int> EdsrScale(const TensorFile& file);
// The factor of the residuals is no tensor: 0.1 for 256 features, as published, else 1.
void BuildEdsr(NetworkBuilder& builder);

bool RecogniseRcan(const TensorFile& file);
void BuildRcan(NetworkBuilder& builder);

}  // namespace upscaled
