// Attention as its definition reads: among the pixels of windows, and among channels.
#pragma once

#include "engine/backends/reference/tensor.h"
#include "engine/model/network.h"

namespace upscaled::reference {

// All set `dst` to the layer's result, without its activation. Inputs hold all that is read of the
// layer.
void AttendWindows(const Layer& layer, const Tensor& src, Tensor& dst);
void MultiplyChannels(const Layer& layer, const Tensor& src, Tensor& dst);
void AttendChannels(const Layer& layer, const Tensor& src, const Tensor& means, Tensor& dst);
void AttendParts(const Layer& layer, const Tensor& src, Tensor& dst);

}  // namespace upscaled::reference
