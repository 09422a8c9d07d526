// How conv3x3_ws is launched: host arithmetic, without CUDA.
#pragma once

#include <cstdint>

#include "engine/backends/cuda/kernels/conv_params.h"
#include "engine/backends/cuda/kernels/conv_tiles.h"
#include "engine/backends/cuda/kernels/device_limits.h"
#include "engine/backends/cuda/kernels/tensor_map.h"
#include "engine/backends/cuda/kernels/ws_variant.h"

namespace upscaled::cuda {

// WsResultMaps, before they are encoded. A base may be null: nothing uses the map.
struct WsResultBoxes {
  TensorBoxes dst, residual;
  int first_y = 0;
  bool empty = false;
};

struct WsLaunch {
  TensorBoxes src;
  WsResultBoxes results[2];
  BlockGrid grid;
  int units = 0;
  int stages = 0;
  int blocks = 0, column_blocks = 0;
  uint32_t shared_bytes = 0;
};

// Whether the variant computes the shape in this much shared memory; `adds`: with a residual.
bool WsFits(const WsVariant& variant, const ConvShape& shape, bool adds, size_t shared_bytes);

// The index of the variant with the least time of the tensor cores for its tiles; -1: none fits.
int ChooseWsVariant(const ConvParams& params, const DeviceLimits& device);

// For a fitting variant.
WsLaunch MakeWsLaunch(const WsVariant& variant, const ConvParams& params,
                      const DeviceLimits& device);

}  // namespace upscaled::cuda
