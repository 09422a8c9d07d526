// SwinIR: residual groups of Swin's blocks; for super-resolution (x2, x3, x4, x8, classical,
// lightweight and real), denoising and JPEG. Windows of 7 pixels are JPEG's, of values up to 255.
// Liang et al., "SwinIR: Image Restoration Using Swin Transformer", 2021;
// https://github.com/JingyunLiang/SwinIR
#pragma once

#include "engine/model/architectures/network_builder.h"

namespace upscaled {

bool RecogniseSwinIr(const TensorFile& file);
absl::StatusOr<int> SwinIrScale(const TensorFile& file);
void BuildSwinIr(NetworkBuilder& builder);

}  // namespace upscaled
