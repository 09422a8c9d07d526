// As elementwise kernels take a layer.
#pragma once

#include <cstdint>

#include "engine/backends/cuda/kernels/activation.h"
#include "engine/backends/cuda/kernels/tensor_view.h"

namespace upscaled::cuda {

enum class ElementwiseKind : uint8_t {
  kCrop,  // also a lone activation: a crop of nothing
  kAdd,
  kMul,
  kMulChannels,  // src1 has one pixel
  kAffine,
  kResizeNearest,
  kResizeBilinear,
  kPad,
  kPixelShuffle,
  kSlice,
  kPixelNorm,
  kGroupNorm,  // src1 has one pixel: the means of all channels, then of their squares
  kConcat,     // src0 alone, its channels from first_channel of the result on; one launch an input
};

enum class PadKind : uint8_t { kConstant, kReplicate, kReflect };

struct ElementwiseParams {
  ElementwiseKind kind = ElementwiseKind::kCrop;
  int factor = 1;
  int crop_px = 0;
  int padding_px = 0;
  PadKind pad = PadKind::kConstant;
  float pad_value = 0;
  int sliced_channel = 0;  // kSlice: src0's first
  bool centred = true;     // kPixelNorm
  int group_channels = 1;  // kGroupNorm
  float epsilon = 0;       // of both
  int first_channel = 0;   // kConcat
  ActivationParams activation;
  const float* constants = nullptr;  // PackConstants on the device, 16-byte aligned
  TensorView src0, src1;
  TensorView dst;
  int tiles = 1;
};

}  // namespace upscaled::cuda
