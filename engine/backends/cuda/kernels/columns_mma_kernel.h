// Convolutions to few channels (kn2row), plain or transposed (col2im), on tensor cores: multiply
// first, shift and add after. Every input pixel is multiplied with the weights of all taps at once,
// into "tap columns" [tap][pixel of the group][channel] in fp32 in shared memory; a result is the
// sum of its group's. So the tensor cores' 8 columns are filled, and pixels are read once.
//
// A block multiplies 32x16 input pixels and sums up the groups with all taps inside them.
#pragma once

#include <cstdint>

#include "engine/backends/cuda/kernels/im2col_mma_kernel.h"

namespace upscaled::cuda {

struct ColumnsMma : Im2colTile<16, 2> {
  // Columns lie far enough apart for the lanes of a fragment to meet in no bank.
  static constexpr int kColumnPixels = kWidth * kHeight + 4;

  UPSCALED_HD static constexpr int TapColumns(const ConvShape& shape) {
    return shape.taps * shape.taps * shape.out_stride * shape.out_stride * shape.out_channels;
  }
  UPSCALED_HD static constexpr int TapColumn(const ConvShape& shape, int tap_y, int tap_x,
                                             int pixel, int channel) {
    return ((tap_y * shape.taps + tap_x) * shape.out_stride * shape.out_stride + pixel) *
               shape.out_channels +
           channel;
  }
  // Groups along an axis from `side` input pixels.
  UPSCALED_HD static constexpr int Groups(const ConvShape& shape, int side) {
    return side - shape.taps + 1;
  }
  // The address of the sum for input pixel `p` of the block.
  UPSCALED_HD static constexpr uint32_t ColumnAddress(int column, int p) {
    return (column * kColumnPixels + p) * sizeof(float);
  }
  UPSCALED_HD static constexpr uint32_t SharedBytes(int columns) {
    const uint32_t stages = kStages * StageBytes(columns), sums = ColumnAddress(columns, 0);
    return stages > sums ? stages : sums;
  }
};

// The sums of one result pixel: `pixel` of the group with its first tap at the block's input pixel
// p.
UPSCALED_DEVICE void SumTaps(const ConvShape& shape, int pixel, int p,
                             float (&sums)[kPlaneChannels]) {
  using Tile = ColumnsMma;
  for (int tap_y = 0; tap_y < shape.taps; ++tap_y) {
    for (int tap_x = 0; tap_x < shape.taps; ++tap_x) {
      const int column = Tile::TapColumn(shape, tap_y, tap_x, pixel, 0);
      const int at = p + tap_y * Tile::kWidth + tap_x;
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        if (c < shape.out_channels) {
          sums[c] += *SharedAt<const float>(Tile::ColumnAddress(column + c, at));
        }
      }
    }
  }
}

template <int kColumns>
UPSCALED_DEVICE void RunColumnsMma(const ConvParams& params, const BlockGrid& grid) {
  using Tile = ColumnsMma;
  const int thread = ThreadIndex(), lane = thread % kWarpThreads, warp = thread / kWarpThreads;
  const ConvShape& shape = params.shape;
  const BlockPlace place = PlaceOf(grid, BlockX());
  float sums[Tile::kRuns][kColumns / 8][4] = {};
  MultiplyIm2col<Tile, kColumns>(params.src, {},
                                 {place.tile, place.x + shape.offset, place.y + shape.offset},
                                 static_cast<const unsigned char*>(params.weights), sums);
  SyncThreads();  // nobody reads the stages any more
#pragma unroll
  for (int m = 0; m < Tile::kRuns; ++m) {
#pragma unroll
    for (int n = 0; n < kColumns / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int p = (warp * Tile::kRuns + m) * 16 + SumGroup(lane, i / 2);
        *SharedAt<float>(Tile::ColumnAddress(n * 8 + SumColumn(lane) + i % 2, p)) = sums[m][n][i];
      }
    }
  }
  SyncThreads();
  float bias[kPlaneChannels], slope[kPlaneChannels];
  Load<kPlaneChannels>(params.constants, bias);
  Load<kPlaneChannels>(params.constants + kSlopes, slope);
  const int width = grid.width * shape.out_stride, height = grid.height * shape.out_stride;
  for (int i = thread; i < width * height; i += Tile::kThreads) {
    const int in_y = i / width, in_x = i - in_y * width;
    const int group_y = in_y / shape.out_stride, group_x = in_x / shape.out_stride;
    const int pixel =
        (in_y - group_y * shape.out_stride) * shape.out_stride + in_x - group_x * shape.out_stride;
    float values[kPlaneChannels] = {};
    SumTaps(shape, pixel, group_y * Tile::kWidth + group_x, values);
#pragma unroll
    for (int c = 0; c < kPlaneChannels; ++c) {
      values[c] = Activate(values[c] + bias[c], slope[c], params.activation);
    }
    StorePixel<Half>(params, 0, place.x * shape.out_stride - shape.crop + in_x,
                     place.y * shape.out_stride - shape.crop + in_y, place.tile, values);
  }
}

}  // namespace upscaled::cuda
