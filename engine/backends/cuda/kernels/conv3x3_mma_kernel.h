// 3x3 convolution with stride 1 on tensor cores (mma.sync, sm_80 and later), halves in and out,
// sums in fp32: an implicit matrix product.
//
// A block computes rectangles of 32x16 groups by kColumns columns, one after the other. Its
// columns' weights stay in shared memory. Pixels come in units of 16 channels with the halo of the
// nine taps, in two stages: while one is multiplied, the next is copied. Each of 8 warps holds the
// sums of two rows (four runs of 16 groups): four loads of pixels and kColumns / 16 of weights feed
// kColumns / 2 products.
//
// Sums run over units, rows, columns and channels in one order wherever a rectangle lies.
#pragma once

#include <cstdint>

#include "engine/backends/cuda/kernels/conv3x3_tile.h"
#include "engine/backends/cuda/kernels/conv_tiles.h"
#include "engine/backends/cuda/kernels/epilogue.h"
#include "engine/backends/cuda/kernels/mma_tile.h"

namespace upscaled::cuda {

struct Conv3x3Mma : Conv3x3Tile<32, 16> {
  static constexpr int kWarps = 8, kThreads = kWarps * kWarpThreads;
  static constexpr int kCopyThreads = kThreads, kCopyUnroll = 1;
  static constexpr int kRuns = kWidth * kHeight / 16 / kWarps;
  static constexpr int kStages = 2;
  static_assert(kWidth == 32 && kRuns % 2 == 0, "warps hold whole rows");

  // Weights of one block's columns: [unit][tap][16 columns][lane][8 halves].
  UPSCALED_HD static constexpr uint32_t WeightBytes(const ConvShape& shape, int columns) {
    return Units(shape) * kTapCount * StepBytes(columns);
  }
  // Weights, stages, and the warps' space to pass sums.
  UPSCALED_HD static constexpr uint32_t SharedBytes(const ConvShape& shape, int columns) {
    return WeightBytes(shape, columns) + kStages * kStageBytes + kWarps * kTransferBytes;
  }
};

template <int kColumns>
UPSCALED_DEVICE void MultiplyUnit(const uint32_t (&pixels)[Conv3x3Mma::kRuns], uint32_t stage,
                                  uint32_t weights,
                                  float (&sums)[Conv3x3Mma::kRuns][kColumns / 8][4]) {
  using Tile = Conv3x3Mma;
#pragma unroll 1
  for (int tap_y = 0; tap_y < Tile::kTaps; ++tap_y) {
#pragma unroll
    for (int tap_x = 0; tap_x < Tile::kTaps; ++tap_x) {
      MultiplyStep<Tile::kRuns, kColumns>(
          pixels, stage + (tap_y * Tile::kHaloWidth + tap_x) * kPixelBytes,
          weights + (tap_y * Tile::kTaps + tap_x) * StepBytes(kColumns), sums);
    }
  }
}

template <int kColumns>
UPSCALED_DEVICE void RunConv3x3Mma(const ConvParams& params, const BlockGrid& grid) {
  using Tile = Conv3x3Mma;
  const int thread = ThreadIndex(), lane = thread % kWarpThreads, warp = thread / kWarpThreads;
  const int units = Tile::Units(params.shape), first_column = BlockY() * kColumns;
  const uint32_t weight_bytes = Tile::WeightBytes(params.shape, kColumns);
  const auto stage_of = [&](int step) {
    return weight_bytes + step % Tile::kStages * Tile::kStageBytes;
  };
  const uint32_t transfer =
      weight_bytes + Tile::kStages * Tile::kStageBytes + warp * kTransferBytes;

  const auto* const weights = static_cast<const unsigned char*>(params.weights) +
                              static_cast<int64_t>(BlockY()) * weight_bytes;
  for (uint32_t i = thread * 16; i < weight_bytes; i += Tile::kThreads * 16) {
    CopyAsync16(i, weights + i, true);
  }
  // The warp's run m lies in row 2 * warp + m / 2.
  uint32_t pixels[Tile::kRuns];
#pragma unroll
  for (int m = 0; m < Tile::kRuns; ++m) {
    const int row = LoadedPlane(lane) * Tile::kHaloHeight + warp * Tile::kRuns / 2 + m / 2;
    pixels[m] = (row * Tile::kHaloWidth + m % 2 * 16 + LoadedPixel(lane)) * kPixelBytes;
  }

  // `step` counts the block's units over all of its rectangles.
  int step = 0;
  int block = BlockX();
  if (block < grid.count) CopyUnit<Tile>(params, PlaceOf(grid, block), 0, stage_of(0));
  CommitCopies();
  for (; block < grid.count; block += GridX()) {
    const BlockPlace place = PlaceOf(grid, block);
    float sums[Tile::kRuns][kColumns / 8][4] = {};
#pragma unroll 1
    for (int unit = 0; unit < units; ++unit, ++step) {
      WaitCopies<0>();
      SyncThreads();  // all threads' copies have arrived, and nobody reads the other stage any more
      if (unit + 1 < units) {
        CopyUnit<Tile>(params, place, unit + 1, stage_of(step + 1));
      } else if (block + GridX() < grid.count) {
        CopyUnit<Tile>(params, PlaceOf(grid, block + GridX()), 0, stage_of(step + 1));
      }
      CommitCopies();
      MultiplyUnit<kColumns>(pixels, stage_of(step),
                             lane * 16 + unit * Tile::kTapCount * StepBytes(kColumns), sums);
    }
    const BlockPlace rows{place.tile, place.x, place.y + warp * Tile::kRuns / 2};
    StoreSums<Tile::kRuns, kColumns>(params, transfer, first_column, rows, sums);
  }
}

}  // namespace upscaled::cuda
