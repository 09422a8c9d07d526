// Window attention as its definition reads.
#pragma once

#include "engine/backends/reference/tensor.h"
#include "engine/model/network.h"

namespace upscaled::reference {

// Sets `dst` to what a kWindowAttention layer makes of `src`, without its activation. `src` holds
// the whole windows of all of dst's pixels, as far as they lie in the layer.
void AttendWindows(const Layer& layer, const Tensor& src, Tensor& dst);

}  // namespace upscaled::reference
