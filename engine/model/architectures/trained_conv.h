// A 3x3 convolution, trained as four: SPAN's, and a part of RTMoSR's.
// Wan et al., "Swift Parameter-free Attention Network for Efficient Super-Resolution", 2024
#pragma once

#include <string_view>

#include "engine/model/architectures/network_builder.h"

namespace upscaled {

// Returns the one convolution equal to NAME.conv.0 to 2 and NAME.sk. Leaves NAME.eval_conv aside;
// training made it of them at some time. Without weights after an error.
Layer ReadTrainedConv(NetworkBuilder& builder, std::string_view name);

}  // namespace upscaled
