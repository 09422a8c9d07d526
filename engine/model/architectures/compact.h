// Real-ESRGAN's SRVGGNetCompact: 3x3 convolutions, a pixel shuffle, and the image added. Any depth,
// width and scale.
#pragma once

#include "engine/model/architectures/architecture.h"

namespace upscaled {

bool RecogniseCompact(const TensorFile& file);
absl::StatusOr<int> CompactScale(const TensorFile& file);
void BuildCompact(NetworkBuilder& builder);
// Without PReLU nothing in the file tells the activation.
void BuildCompactRelu(NetworkBuilder& builder);
void BuildCompactLeakyRelu(NetworkBuilder& builder);

}  // namespace upscaled
