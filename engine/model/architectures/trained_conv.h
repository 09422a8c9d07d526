// A 3x3 convolution that was trained as four: SPAN's, and a part of RTMoSR's.
// Wan et al., "Swift Parameter-free Attention Network for Efficient Super-Resolution", 2024
#pragma once

#include <string_view>

#include "engine/model/architectures/network_builder.h"

namespace upscaled {

// Returns the one convolution that NAME.conv.0 to 2 and NAME.sk amount to. NAME.eval_conv, which
// training made of them at some time, is left aside. Without weights after an error.
Layer ReadTrainedConv(NetworkBuilder& builder, std::string_view name);

}  // namespace upscaled
