// A convolution with its fused layers, as a matrix product (conv_params.h).
#pragma once

#include <cstdint>
#include <vector>

#include "engine/backends/cuda/kernels/conv_params.h"
#include "engine/model/network.h"

namespace upscaled::cuda {

struct FusedConv {
  const Layer* conv = nullptr;     // kConv, kConvTranspose or kFullyConnected (of one pixel)
  const Layer* shuffle = nullptr;  // if not null: a kPixelShuffle of its result
};

// Whether kernels can compute it at all: `shuffle` only behind a kConv, and an activation in only
// one of the two.
bool IsFusable(const FusedConv& layers);

ConvShape ShapeOf(const FusedConv& layers);
ActivationParams ActivationOf(const FusedConv& layers);

// A launch's data, for the host to copy to the device.
struct PackedConv {
  std::vector<uint8_t> weights;
  std::vector<float> constants;
  bool half_weights = false;  // or floats
};

// Zero where columns, taps and channels are only filled up.
float WeightAt(const FusedConv& layers, const ConvShape& shape, int column, int tap_y, int tap_x,
               int in_channel);
// kPlaneConstants for each 8 of `columns` columns, in order; zeros beyond the last.
std::vector<float> PackColumnConstants(const FusedConv& layers, const ConvShape& shape,
                                       int columns);

}  // namespace upscaled::cuda
