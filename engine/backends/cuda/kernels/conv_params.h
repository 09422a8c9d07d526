// Every convolution as a matrix product. A row is a group: the place of one pixel of a
// convolution's result, or of the stride x stride pixels of a transposed one. A column is a channel
// of one of the group's pixels. So a transposed convolution is one with fewer taps and more
// columns, and a convolution before a pixel shuffle has its columns in the shuffled order:
//
//   group (x, y) reads the inputs (x, y) * in_stride + offset + [0, taps), and
//   writes the pixels (x, y) * out_stride - crop + [0, out_stride).
#pragma once

#include "engine/backends/cuda/kernels/activation.h"
#include "engine/backends/cuda/kernels/portable.h"
#include "engine/backends/cuda/kernels/tensor_view.h"

namespace upscaled::cuda {

// Columns of a pixel of no more channels, where a group has several pixels.
inline constexpr int kThinColumns = 4;

struct ConvShape {
  int taps = 1;  // along one axis
  int in_stride = 1;
  int offset = 0;
  int out_stride = 1;
  int crop = 0;
  int in_channels = 0;
  int out_channels = 0;  // channels of the pixels that are written

  // Columns of one pixel: whole planes, or kThinColumns.
  UPSCALED_HD constexpr int PixelColumns() const {
    if (out_channels <= kThinColumns && out_stride > 1) return kThinColumns;
    return PlaneCount(out_channels) * kPlaneChannels;
  }
  UPSCALED_HD constexpr int Columns() const { return out_stride * out_stride * PixelColumns(); }

  friend bool operator==(const ConvShape&, const ConvShape&) = default;
};

// One launch.
struct ConvParams {
  ConvShape shape;
  TensorView src;
  TensorView dst;                    // dst.region is what is computed
  int tiles = 1;                     // in the batch
  const void* weights = nullptr;     // PackedConv::weights on the device, 16-byte aligned
  const float* constants = nullptr;  // PackedConv::constants on the device, 16-byte aligned
  ActivationParams activation;
  // Added to the activated result, if data is not null; each of its pixels counts for
  // residual_factor x residual_factor of the result. As many channels; the precision of dst.
  TensorView residual;
  int residual_factor = 1;
  // If data is not null, a factor for each channel of the residual, one pixel. Of one tile: then
  // `tiles` is 1.
  TensorView residual_gate;
  // Instead of dst if data is not null: the first three channels as samples, clamped and rounded.
  // dst.region and dst.channels still give the computed part.
  SampleView samples;
  // If data is not null, the kernel adds the final values of dst to these sums. Only launches with
  // ConvKernel::adds_sums do this, for shapes with out_stride 1.
  PooledSums sums;
  // Set to 1 by a kernel with a wait that gave up (Patience): its results are NaN. May be null.
  uint32_t* gave_up = nullptr;
  // Whether half_epilogue.h stores the results it can, or epilogue.h, with the same bits.
  bool half_epilogue = false;
};

}  // namespace upscaled::cuda
