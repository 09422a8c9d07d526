// The cost of computing a layer.
#pragma once

#include "engine/model/network.h"
#include "engine/model/op.h"

namespace upscaled {

// Multiply-adds of the direct algorithm for `pixels` of the output; 0 for layers only moving or
// changing values.
inline double MultiplyAdds(const Layer& layer, double pixels) {
  return OperationOf(layer.op).multiply_adds(layer, pixels);
}

}  // namespace upscaled
