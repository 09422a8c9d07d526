// The first layers of a network in one launch: the image with its replicated border, the nearest
// resize behind it, if any, and a 3x3 convolution.
#pragma once

#include "engine/backends/cuda/kernels/activation.h"
#include "engine/backends/cuda/kernels/tensor_view.h"

namespace upscaled::cuda {

struct FirstConvParams {
  SampleView image;       // covers what dst.region needs
  Size image_size;        // the whole image's: beyond it its edge is repeated
  int pad_px = 0;         // Network::pad_px
  int resize_factor = 1;  // factor of the kResizeNearest between input and convolution; 1 = none
  Size conv_input;        // size of the layer that the convolution reads: beyond it is zero padding
  int padding_px = 0;     // the convolution's
  TensorView dst;
  int tiles = 1;                   // in the batch, at most 65535
  const float* weights = nullptr;  // PackedConv on the device, 16-byte aligned
  const float* constants = nullptr;
  ActivationParams activation;
};

}  // namespace upscaled::cuda
