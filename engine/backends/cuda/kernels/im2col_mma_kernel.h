// Products of gathered pixels with weights on tensor cores (mma.sync, sm_80 and later), halves in
// and out, sums in fp32. Any convolution: its taps and input planes together count as the planes of
// a 1x1 convolution, "virtual planes" [tap][plane], each copied from where its tap reads.
//
// A block computes rows of 32 groups by kColumns columns, the groups of kRuns runs of 16 a warp.
// Each of the stages in shared memory holds 4 virtual planes and their weights; while one is
// multiplied, the others are copied.
#pragma once

#include <cstdint>

#include "engine/backends/cuda/kernels/conv_tiles.h"
#include "engine/backends/cuda/kernels/epilogue.h"
#include "engine/backends/cuda/kernels/mma_tile.h"

namespace upscaled::cuda {

// The inputs of a product: group (x, y) reads (x, y) * stride + offset + [0, taps).
struct Gather {
  int taps = 1;
  int stride = 1;
  int offset = 0;
};

template <int kRows, int kStageCount>
struct Im2colTile {
  static constexpr int kWidth = 32, kHeight = kRows;  // groups
  static constexpr int kWarps = 8, kThreads = kWarps * kWarpThreads;
  static constexpr int kRuns = kWidth * kHeight / 16 / kWarps;
  static constexpr int kPlanes = 4, kSteps = kPlanes / kStepPlanes;  // per stage
  static constexpr int kStages = kStageCount;
  static constexpr uint32_t kPlaneBytes = kWidth * kHeight * kPixelBytes;
  static_assert(kRuns % 2 == 0, "warps hold whole rows");

  // Stages' worth of virtual planes.
  UPSCALED_HD static constexpr int Units(int taps, int in_channels) {
    return (taps * taps * PlaneCount(in_channels) + kPlanes - 1) / kPlanes;
  }
  // Weights of a unit and a block's columns: [step][16 columns][lane][8 halves].
  UPSCALED_HD static constexpr uint32_t WeightBytes(int columns) {
    return kSteps * StepBytes(columns);
  }
  UPSCALED_HD static constexpr uint32_t StageBytes(int columns) {
    return kPlanes * kPlaneBytes + WeightBytes(columns);
  }
};

// 256 groups: two blocks a multiprocessor, one with no more than 100 KiB of shared memory.
using Im2colMma = Im2colTile<8, 3>;

template <typename Tile, int kColumns>
UPSCALED_DEVICE void CopyIm2colUnit(const TensorView& src, const Gather& gather,
                                    const BlockPlace& place, int unit, const unsigned char* weights,
                                    uint32_t stage) {
  const int planes = PlaneCount(src.channels);
#pragma unroll
  for (int p = ThreadIndex(); p < Tile::kWidth * Tile::kHeight; p += Tile::kThreads) {
    const int first_x = (place.x + p % Tile::kWidth) * gather.stride + gather.offset;
    const int first_y = (place.y + p / Tile::kWidth) * gather.stride + gather.offset;
#pragma unroll
    for (int i = 0; i < Tile::kPlanes; ++i) {
      const int virtual_plane = unit * Tile::kPlanes + i;
      const int tap = virtual_plane / planes, plane = virtual_plane - tap * planes;
      const int tap_y = tap / gather.taps, tap_x = tap - tap_y * gather.taps;
      const int x = first_x + tap_x, y = first_y + tap_y;
      const bool inside = tap_y < gather.taps && IsInside(src.region, x, y);
      const Half* const from =
          inside ? PixelAt<Half>(src, place.tile, plane, x, y) : static_cast<const Half*>(src.data);
      CopyAsync16(stage + i * Tile::kPlaneBytes + p * kPixelBytes, from, inside);
    }
  }
  constexpr uint32_t kWeightBytes = Tile::WeightBytes(kColumns);
  const uint32_t at = ThreadIndex() * 16;
  static_assert(kWeightBytes <= Tile::kThreads * 16, "a copy each");
  if (at < kWeightBytes) {
    CopyAsync16(stage + Tile::kPlanes * Tile::kPlaneBytes + at,
                weights + static_cast<int64_t>(unit) * kWeightBytes + at, true);
  }
}

// Adds to `sums` for the rows of `place`. Uses shared memory from 0 on; others may use it behind a
// SyncThreads. `weights`: of the block's columns, [unit] as Tile says.
template <typename Tile, int kColumns>
UPSCALED_DEVICE void MultiplyIm2col(const TensorView& src, const Gather& gather,
                                    const BlockPlace& place, const unsigned char* weights,
                                    float (&sums)[Tile::kRuns][kColumns / 8][4]) {
  const int thread = ThreadIndex(), lane = thread % kWarpThreads, warp = thread / kWarpThreads;
  const int units = Tile::Units(gather.taps, src.channels);
  const auto copy = [&](int unit) {
    if (unit < units) {
      CopyIm2colUnit<Tile, kColumns>(src, gather, place, unit, weights,
                                     unit % Tile::kStages * Tile::StageBytes(kColumns));
    }
    CommitCopies();
  };
  uint32_t pixels[Tile::kRuns];
#pragma unroll
  for (int m = 0; m < Tile::kRuns; ++m) {
    pixels[m] = LoadedPlane(lane) * Tile::kPlaneBytes +
                ((warp * Tile::kRuns + m) * 16 + LoadedPixel(lane)) * kPixelBytes;
  }
#pragma unroll
  for (int unit = 0; unit < Tile::kStages - 1; ++unit) copy(unit);
#pragma unroll 1
  for (int unit = 0; unit < units; ++unit) {
    WaitCopies<Tile::kStages - 2>();
    SyncThreads();  // the unit has arrived, and nobody reads the stage before it any more
    copy(unit + Tile::kStages - 1);
    const uint32_t stage = unit % Tile::kStages * Tile::StageBytes(kColumns);
#pragma unroll
    for (int step = 0; step < Tile::kSteps; ++step) {
      MultiplyStep<Tile::kRuns, kColumns>(
          pixels, stage + step * kStepPlanes * Tile::kPlaneBytes,
          stage + Tile::kPlanes * Tile::kPlaneBytes + step * StepBytes(kColumns) + lane * 16, sums);
    }
  }
  WaitCopies<0>();
}

template <int kColumns>
constexpr uint32_t Im2colSharedBytes() {
  return Im2colMma::kStages * Im2colMma::StageBytes(kColumns) + Im2colMma::kWarps * kTransferBytes;
}

template <int kColumns>
UPSCALED_DEVICE void RunIm2colMma(const ConvParams& params, const BlockGrid& grid) {
  using Tile = Im2colMma;
  const int warp = ThreadIndex() / kWarpThreads;
  const ConvShape& shape = params.shape;
  const BlockPlace place = PlaceOf(grid, BlockX());
  const int64_t weight_bytes =
      int64_t{Tile::Units(shape.taps, shape.in_channels)} * Tile::WeightBytes(kColumns);
  float sums[Tile::kRuns][kColumns / 8][4] = {};
  MultiplyIm2col<Tile, kColumns>(
      params.src, {shape.taps, shape.in_stride, shape.offset}, place,
      static_cast<const unsigned char*>(params.weights) + BlockY() * weight_bytes, sums);
  StoreSums<Tile::kRuns, kColumns>(
      params, Tile::kStages * Tile::StageBytes(kColumns) + warp * kTransferBytes,
      BlockY() * kColumns, BlockPlace{place.tile, place.x, place.y + warp * Tile::kRuns / 2}, sums);
}

}  // namespace upscaled::cuda
