// A launch that multiplies a convolution's packed weights by the factors of its inputs' channels.
#pragma once

#include <cstdint>

#include "engine/backends/cuda/kernels/tensor_view.h"

namespace upscaled::cuda {

struct GateParams {
  const void* weights = nullptr;       // PackedConv::weights on the device
  const uint16_t* channels = nullptr;  // InputChannels on the device
  int64_t count = 0;                   // of weights
  TensorView factors;                  // one pixel, of one tile
  void* gated = nullptr;               // as many weights
};

}  // namespace upscaled::cuda
