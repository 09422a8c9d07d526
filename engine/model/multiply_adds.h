// The cost of computing a layer.
#pragma once

#include "engine/model/network.h"

namespace upscaled {

// Multiply-adds of the direct algorithm for so many output pixels; 0 of layers that multiply by no
// weights.
inline double MultiplyAdds(const Layer& layer, double pixels) {
  const double channels = double{1} * layer.in_channels * layer.out_channels;
  const double taps = double{1} * layer.kernel_px * layer.kernel_px;
  switch (layer.op) {
    case Op::kConv:
      return channels * taps * pixels;
    case Op::kConvTranspose:  // each output pixel meets every stride-th tap of a row and a column
      return channels * taps * pixels / (layer.stride_px * layer.stride_px);
    case Op::kFullyConnected:
      return channels * pixels;
    default:
      return 0;
  }
}

}  // namespace upscaled
