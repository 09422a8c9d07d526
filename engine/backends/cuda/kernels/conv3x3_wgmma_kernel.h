// 3x3 convolution with stride 1 on the tensor cores of sm_90a (wgmma), halves in and out, sums in
// fp32: as conv3x3_mma_kernel.h, but products read both operands from shared memory.
//
// A block computes rectangles of 16x32 groups by 64 columns. Its weights stay in shared memory;
// units of 16 channels with their halo go through three stages. 128 threads copy, two groups of 128
// multiply (m64n256k16): the 64 rows of a product are columns, its 256 columns a strip of 8x32
// groups. 8 neighbouring pixels of a plane are one core matrix (8 rows of 16 bytes), the next row
// of pixels is the next one, the second plane the second half of the 16 channels: so a tap is an
// address.
//
// Waits give up in the end (Patience), and the kernel then stores NaN: it never hangs.
#pragma once

#include <cstdint>
#include <limits>

#include "engine/backends/cuda/kernels/conv3x3_tile.h"
#include "engine/backends/cuda/kernels/conv_tiles.h"
#include "engine/backends/cuda/kernels/epilogue.h"
#include "engine/backends/cuda/kernels/half_epilogue.h"
#include "engine/backends/cuda/kernels/mma_tile.h"
#include "engine/backends/cuda/kernels/wgmma_operand.h"

namespace upscaled::cuda {

struct Conv3x3Wgmma : Conv3x3Tile<16, 32> {
  static constexpr int kStripWidth = 8, kStrips = kWidth / kStripWidth;
  static constexpr int kColumns = 64;
  static constexpr int kCopyThreads = 128, kThreads = kCopyThreads + kStrips * 128;
  static constexpr int kCopyUnroll = 2;
  static constexpr int kStages = 3;
  static constexpr uint32_t kBarrierBytes = 64;  // full and empty, of each stage

  // Weights of a tap and unit: [plane][column][8 halves].
  static constexpr uint32_t kTapBytes = kStepPlanes * kColumns * kPixelBytes;
  UPSCALED_HD static constexpr uint32_t WeightAddress(int tap, int channel, int column) {
    return ((tap * kStepPlanes + channel / kPlaneChannels) * kColumns + column) * kPixelBytes +
           channel % kPlaneChannels * 2;
  }
  UPSCALED_HD static constexpr uint32_t WeightBytes(const ConvShape& shape) {
    return Units(shape) * kTapCount * kTapBytes;
  }
  // Warps pass sums on as kTransferBytes says, the quads of columns elsewhere: a lane holds two
  // groups of one column.
  static constexpr uint32_t kQuadBytes = (kWarpThreads * 4 + 4) * sizeof(float);
  static constexpr uint32_t kStripTransferBytes = 2 * kQuadBytes;
  UPSCALED_HD static constexpr uint32_t SharedBytes(const ConvShape& shape) {
    return WeightBytes(shape) + kStages * kStageBytes + kStrips * 4 * kStripTransferBytes +
           kBarrierBytes;
  }
};

// The layout of a block's shared memory.
struct Conv3x3WgmmaLayout {
  uint32_t stages, transfer, full, empty;

  UPSCALED_DEVICE explicit Conv3x3WgmmaLayout(const ConvShape& shape) {
    using Tile = Conv3x3Wgmma;
    stages = Tile::WeightBytes(shape);
    transfer = stages + Tile::kStages * Tile::kStageBytes;
    full = transfer + Tile::kStrips * 4 * Tile::kStripTransferBytes;
    empty = full + Tile::kStages * 8;
  }
};

// The block's units in order, and their stages.
struct UnitCounter {
  int stage = 0;
  int phase = 0;  // how often the stages have been gone through, modulo 2

  UPSCALED_DEVICE void Next() {
    if (++stage < Conv3x3Wgmma::kStages) return;
    stage = 0;
    phase ^= 1;
  }
};

// The 128 copying threads. A unit is announced when the next one's copies are in flight.
UPSCALED_DEVICE void CopyUnits(const ConvParams& params, const BlockGrid& grid,
                               const Conv3x3WgmmaLayout& layout) {
  using Tile = Conv3x3Wgmma;
  const int units = Tile::Units(params.shape);
  Patience patience;
  UnitCounter next;
  int announced = -1;  // stage of the latest unit that is under way
  const auto announce = [&] {
    FenceForProducts();
    Arrive(layout.full + announced * 8);
  };
#pragma unroll 1
  for (int block = BlockX(); block < grid.count; block += GridX()) {
    const BlockPlace place = PlaceOf(grid, block);
#pragma unroll 1
    for (int unit = 0; unit < units; ++unit) {
      WaitForPhase(layout.empty + next.stage * 8, next.phase ^ 1, patience);
      if (patience.IsUsedUp()) return;  // the stage may be in use: others must not take it for full
      CopyUnit<Tile>(params, place, unit, layout.stages + next.stage * Tile::kStageBytes);
      CommitCopies();
      if (announced >= 0) {
        WaitCopies<1>();
        announce();
      }
      announced = next.stage;
      next.Next();
    }
  }
  WaitCopies<0>();
  if (announced >= 0) announce();
}

// Issues the products of one unit.
UPSCALED_DEVICE void MultiplyStrip(uint32_t weights, uint32_t pixels, bool first,
                                   float (&sums)[128]) {
  using Tile = Conv3x3Wgmma;
  const uint64_t a =
      MakeOperand(SharedState(weights), Tile::kColumns * kPixelBytes, 8 * kPixelBytes);
  const uint64_t b = MakeOperand(SharedState(pixels), Tile::kPlanePixels * kPixelBytes,
                                 Tile::kHaloWidth * kPixelBytes);
  BeginProducts();
#pragma unroll
  for (int tap = 0; tap < Tile::kTapCount; ++tap) {
    const uint32_t shift = tap / Tile::kTaps * Tile::kHaloWidth + tap % Tile::kTaps;  // in pixels
    MultiplyGroup(sums, a + tap * Tile::kTapBytes / kPixelBytes, b + shift, tap > 0 || !first);
  }
  CommitProducts();
}

// Makes results of a kernel that has given up NaN, and tells the host.
UPSCALED_DEVICE void SpoilSums(const ConvParams& params, float (&sums)[128]) {
  MarkGivenUp(params);
#pragma unroll
  for (float& sum : sums) sum = std::numeric_limits<float>::quiet_NaN();
}

// Stores a warp's sums: 16 columns of a strip of 8x32 groups, as 4 rows by 8 columns at a time.
UPSCALED_DEVICE void StoreStripSums(const ConvParams& params, uint32_t transfer, int first_column,
                                    const BlockPlace& strip, const float (&sums)[128]) {
  using Tile = Conv3x3Wgmma;
  constexpr int kRows = kWarpThreads / Tile::kStripWidth;
  static_assert(Tile::kHeight * Tile::kStripWidth <= CountedSum::kMaxValues);
  const int lane = ThreadIndex() % kWarpThreads;
  const auto address = [&](int group, int column) {
    return transfer + column / 4 * Tile::kQuadBytes + (group * 4 + column % 4) * sizeof(float);
  };
#pragma unroll 1
  for (int half = 0; half < 2; ++half) {
    const int column = first_column + half * kPlaneChannels;
    WarpSums pooled;
#pragma unroll 1
    for (int rows = 0; rows < Tile::kHeight / kRows; ++rows) {
      SyncWarp();  // the values passed before have been read
#pragma unroll
      for (int y = 0; y < Tile::kHeight; ++y) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          if (y / kRows != rows || h != half) continue;
#pragma unroll
          for (int x = 0; x < 2; ++x) {
            const int group = y % kRows * Tile::kStripWidth + SumColumn(lane) + x;
            *SharedAt<float>(address(group, SumGroup(lane, 0))) = sums[4 * y + 2 * h + x];
          }
        }
      }
      SyncWarp();
      float columns[kPlaneChannels];
      Load<4>(SharedAt<float>(address(lane, 0)), columns);
      Load<4>(SharedAt<float>(address(lane, 4)), columns + 4);
      StorePooledColumns(params, column, strip.x + lane % Tile::kStripWidth,
                         strip.y + rows * kRows + lane / Tile::kStripWidth, strip.tile, columns,
                         transfer, pooled);
    }
    MovePooledColumns(params, column, strip.tile, pooled);
  }
}

// Same as StoreStripSums if StoresHalves: 4 rows by 16 columns at a time. A lane holds two columns
// of neighbouring pixels; stmatrix turns them into pixels of neighbouring columns. `kAlone`:
// without a residual and sums of poolings, a copy of a quarter of the code.
template <bool kAlone>
UPSCALED_DEVICE void StoreStripHalves(const ConvParams& params, uint32_t transfer, int first_column,
                                      const BlockPlace& strip, const float (&sums)[128]) {
  using Tile = Conv3x3Wgmma;
  constexpr int kRows = kWarpThreads / Tile::kStripWidth, kPlanes = 2;
  constexpr uint32_t kRowBytes = Tile::kStripWidth * kPixelBytes;
  static_assert(kPlanes * kPassedBytes <= Tile::kStripTransferBytes);
  const int planes = CeilDiv(params.shape.Columns() - first_column, kPlaneChannels);
  if (planes <= 0) return;
  const int lane = ThreadIndex() % kWarpThreads;
  const bool adds = !kAlone && params.residual.data != nullptr;
  const bool pools = !kAlone && params.sums.data != nullptr;
  // Behind the last plane it is computed again, and not stored.
  const int second_column = planes > 1 ? first_column + kPlaneChannels : first_column;
  const SlopedColumn columns[kPlanes] = {{params, first_column + SumGroup(lane, 0)},
                                         {params, second_column + SumGroup(lane, 0)}};
  const auto pixels_of = [&](int column) {
    return LanePixels(params, ColumnsPlace(params.shape, column),
                      strip.x + lane % Tile::kStripWidth, strip.y + lane / Tile::kStripWidth,
                      strip.tile);
  };
  const LanePixels pixels[kPlanes] = {pixels_of(first_column), pixels_of(second_column)};
  // Matrices are a row of pixels of a plane: two rows of two planes. Lane l gives the address of
  // pixel l % 8 of matrix l / 8.
  const uint32_t turned =
      transfer + lane / 8 % 2 * kPassedBytes + lane / 16 * kRowBytes + lane % 8 * kPixelBytes;
  WarpSums pooled[kPlanes];
#pragma unroll
  for (int row = 0; row < Tile::kHeight; row += kRows) {
    const auto passed = [&](int p) { return transfer + p * kPassedBytes + lane * kPixelBytes; };
    SyncWarp();  // the values passed before have been read
    if (adds) {
#pragma unroll
      for (int p = 0; p < kPlanes; ++p) pixels[p].PassResidual(params, row, passed(p));
      SyncWarp();
    }
#pragma unroll
    for (int pair = 0; pair < kRows; pair += 2) {
      uint32_t residual[4] = {}, halves[4];
      if (adds) LoadTransposed(residual, turned + pair * kRowBytes);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int at = 4 * (row + pair + i / 2) + 2 * (i % 2);
        float first = columns[i % 2].Apply(sums[at]), second = columns[i % 2].Apply(sums[at + 1]);
        if (adds) {
          first = columns[i % 2].Add(first, LowHalf(residual[i]));
          second = columns[i % 2].Add(second, HighHalf(residual[i]));
        }
        halves[i] = PackHalves(first, second);
      }
      StoreTransposed(turned + pair * kRowBytes, halves);
    }
    SyncWarp();
#pragma unroll
    for (int p = 0; p < kPlanes; ++p) {
      if (p >= planes) continue;
      pixels[p].Store(params, row, passed(p));
      if (!pools) continue;
      pooled[p].AddPassed(transfer + p * kPassedBytes, [&](int group) {
        return IsInside(params.sums.part, strip.x + group % Tile::kStripWidth,
                        strip.y + row + group / Tile::kStripWidth);
      });
    }
  }
#pragma unroll
  for (int p = 0; p < kPlanes; ++p) {
    if (pools && p < planes)
      MovePooledColumns(params, first_column + p * kPlaneChannels, strip.tile, pooled[p]);
  }
}

// 128 of the multiplying threads: a strip. A stage is given back when the next unit's products are
// issued.
UPSCALED_DEVICE void MultiplyUnits(const ConvParams& params, const BlockGrid& grid,
                                   const Conv3x3WgmmaLayout& layout, int strip) {
  using Tile = Conv3x3Wgmma;
  const int warp = ThreadIndex() % 128 / kWarpThreads;
  const int units = Tile::Units(params.shape);
  const uint32_t transfer = layout.transfer + (strip * 4 + warp) * Tile::kStripTransferBytes;
  // Nothing after giving up: a strip a round ahead would free stages that the other one reads.
  Patience patience;
  const auto give_back = [&](int stage) {
    SyncWarp();
    if (ThreadIndex() % kWarpThreads == 0 && !patience.IsUsedUp()) Arrive(layout.empty + stage * 8);
  };
  const bool halves = StoresHalves(params);
  const bool alone = params.residual.data == nullptr && params.sums.data == nullptr;
  UnitCounter next;
  float sums[128];
#pragma unroll 1
  for (int block = BlockX(); block < grid.count; block += GridX()) {
    int previous = -1;  // stage of the unit that is being multiplied
#pragma unroll 1
    for (int unit = 0; unit < units; ++unit) {
      WaitForPhase(layout.full + next.stage * 8, next.phase, patience);
      MultiplyStrip(
          unit * Tile::kTapCount * Tile::kTapBytes,
          layout.stages + next.stage * Tile::kStageBytes + strip * Tile::kStripWidth * kPixelBytes,
          unit == 0, sums);
      if (previous >= 0) {
        WaitProducts<1>();
        give_back(previous);
      }
      previous = next.stage;
      next.Next();
    }
    WaitProducts<0>();
    HoldSums(sums);
    give_back(previous);
    if (patience.IsUsedUp()) SpoilSums(params, sums);
    const BlockPlace place = PlaceOf(grid, block);
    const BlockPlace own{place.tile, place.x + strip * Tile::kStripWidth, place.y};
    const int first_column = BlockY() * Tile::kColumns + warp * 16;
    if (halves && alone) {
      StoreStripHalves<true>(params, transfer, first_column, own, sums);
    } else if (halves) {
      StoreStripHalves<false>(params, transfer, first_column, own, sums);
    } else {
      StoreStripSums(params, transfer, first_column, own, sums);
    }
  }
}

UPSCALED_DEVICE void RunConv3x3Wgmma(const ConvParams& params, const BlockGrid& grid) {
  using Tile = Conv3x3Wgmma;
  const int thread = ThreadIndex();
  const Conv3x3WgmmaLayout layout(params.shape);
  const uint32_t weight_bytes = Tile::WeightBytes(params.shape);
  const auto* const weights = static_cast<const unsigned char*>(params.weights) +
                              static_cast<int64_t>(BlockY()) * weight_bytes;
  for (uint32_t i = thread * 16; i < weight_bytes; i += Tile::kThreads * 16) {
    CopyAsync16(i, weights + i, true);
  }
  CommitCopies();
  if (thread == 0) {
    for (int stage = 0; stage < Tile::kStages; ++stage) {
      InitBarrier(layout.full + stage * 8, Tile::kCopyThreads);
      InitBarrier(layout.empty + stage * 8, Tile::kStrips * 4);
    }
  }
  WaitCopies<0>();
  FenceForProducts();
  SyncThreads();
  if (thread < Tile::kCopyThreads) {
    ReduceRegisters<40>();
    CopyUnits(params, grid, layout);
  } else {
    RaiseRegisters<232>();
    MultiplyUnits(params, grid, layout, OfWarp(thread / 128 - 1));
  }
}

}  // namespace upscaled::cuda
