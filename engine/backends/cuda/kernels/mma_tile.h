// Products of tiles with the tensor cores' m16n8k16: 16 groups (a run of 16 pixels in shared
// memory) by 8 columns by 16 channels. How values lie in a warp's registers is the PTX ISA's,
// "Matrix Fragments for mma.m16n8k16".
#pragma once

#include <cstdint>

#include "engine/backends/cuda/kernels/conv_tiles.h"
#include "engine/backends/cuda/kernels/device.h"
#include "engine/backends/cuda/kernels/epilogue.h"
#include "engine/backends/cuda/kernels/half_epilogue.h"
#include "engine/backends/cuda/kernels/pooled_sums.h"
#include "engine/backends/cuda/kernels/portable.h"
#include "engine/backends/cuda/kernels/storage.h"

namespace upscaled::cuda {

inline constexpr uint32_t kPixelBytes = 16;  // in one plane, halves

// A k-step: 16 channels of one tap, two planes.
inline constexpr int kStepChannels = 16;
inline constexpr int kStepPlanes = 2;
// Bytes of a k-step's weights for 16 columns: each lane's 16 bytes, the fragments of two products.
inline constexpr int kFragmentColumns = 16;
inline constexpr uint32_t kFragmentBytes = kWarpThreads * 16;

UPSCALED_HD constexpr uint32_t StepBytes(int columns) {
  return columns / kFragmentColumns * kFragmentBytes;
}

// The weight at half `half` (0..7) of a lane's 16 bytes.
struct WeightPlace {
  int column;   // 0..15
  int channel;  // 0..15
};
UPSCALED_HD constexpr WeightPlace PlaceInFragment(int lane, int half) {
  return {half / 4 * 8 + lane / 4, half / 2 % 2 * 8 + lane % 4 * 2 + half % 2};
}

// The pixel and plane of the 16 bytes a lane addresses in a load of 16 pixels x 16 channels.
UPSCALED_HD constexpr int LoadedPixel(int lane) { return lane % 16; }
UPSCALED_HD constexpr int LoadedPlane(int lane) { return lane / 16; }

// Sums 0, 1 of a lane are two columns of one group, 2 and 3 those of another one.
UPSCALED_HD constexpr int SumGroup(int lane, int pair) { return lane / 4 + pair * 8; }
UPSCALED_HD constexpr int SumColumn(int lane) { return lane % 4 * 2; }

// A k-step for one warp: kRuns runs of 16 groups by kColumns columns. `pixels`: the addresses of
// this lane's loads, `weights`: of its 16 bytes for the first 16 columns.
template <int kRuns, int kColumns>
UPSCALED_DEVICE void MultiplyStep(const uint32_t (&pixels)[kRuns], uint32_t pixel_offset,
                                  uint32_t weights, float (&sums)[kRuns][kColumns / 8][4]) {
  Packed<uint32_t, 4> b[kColumns / kFragmentColumns];
#pragma unroll
  for (int n = 0; n < kColumns / kFragmentColumns; ++n) {
    b[n] = *SharedAt<const Packed<uint32_t, 4>>(weights + n * kFragmentBytes);
  }
#pragma unroll
  for (int m = 0; m < kRuns; ++m) {
    uint32_t a[4];
    LoadMatrices(a, pixels[m] + pixel_offset);
#pragma unroll
    for (int n = 0; n < kColumns / kFragmentColumns; ++n) {
      MultiplyAdd(sums[m][2 * n], a, b[n].values[0], b[n].values[1]);
      MultiplyAdd(sums[m][2 * n + 1], a, b[n].values[2], b[n].values[3]);
    }
  }
}

// Layout a warp uses to pass the sums of 32 groups by 8 columns to the storing lanes. The two quads
// of columns lie far enough apart for no two lanes to meet in a bank.
inline constexpr uint32_t kQuadBytes = (kWarpThreads * 4 + 16) * sizeof(float);
inline constexpr uint32_t kTransferBytes = 2 * kQuadBytes;

UPSCALED_HD constexpr uint32_t TransferAddress(int group, int column) {
  return column / 4 * kQuadBytes + (group * 4 + column % 4) * sizeof(float);
}

// StoreColumns for each lane's group; adds the part ConvParams::sums wants to `pooled`. `transfer`:
// the warp's, of kTransferBytes or more.
UPSCALED_DEVICE void StorePooledColumns(const ConvParams& params, int column, int x, int y,
                                        int tile, float (&columns)[kPlaneChannels],
                                        uint32_t transfer, WarpSums& pooled) {
  StoreColumns<Half>(params, column, x, y, tile, columns);
  if (params.sums.data != nullptr) pooled.Add(params.sums, transfer, x, y, columns);
}
// Behind the last group with these columns.
UPSCALED_DEVICE void MovePooledColumns(const ConvParams& params, int column, int tile,
                                       WarpSums& pooled) {
  if (params.sums.data == nullptr) return;
  pooled.MoveTo(params.sums, tile, PlaneCount(params.shape.out_channels), column / kPlaneChannels);
}

// Same as StoreSums if StoresHalves, without sums of poolings. Two places of kPassedBytes take
// turns: one meeting of the warp separates the writes of a place from its reads, and the reads of
// the other from its next writes.
template <int kRuns, int kColumns>
UPSCALED_DEVICE void StoreHalfSums(const ConvParams& params, uint32_t transfer, int first_column,
                                   const BlockPlace& place,
                                   const float (&sums)[kRuns][kColumns / 8][4]) {
  static_assert(2 * kPassedBytes <= kTransferBytes);
  const int lane = ThreadIndex() % kWarpThreads;
  const bool adds = params.residual.data != nullptr;
  const int own_first = OfWarp(first_column);  // or all constants stay in registers
  SyncWarp();                                  // the values of the rectangle before have been read
#pragma unroll
  for (int n = 0; n < kColumns / 8; ++n) {
    const int column = own_first + n * 8;
    if (column >= params.shape.Columns()) return;
    const LanePixels pixels(params, ColumnsPlace(params.shape, column), place.x + lane, place.y,
                            place.tile);
    const SlopedColumn low(params, column + SumColumn(lane));
    const SlopedColumn high(params, column + SumColumn(lane) + 1);
#pragma unroll
    for (int row = 0; row < kRuns / 2; ++row) {
      const uint32_t passed = transfer + (n * kRuns / 2 + row) % 2 * kPassedBytes;
      if (adds) {
        pixels.PassResidual(params, row, passed + lane * kPixelBytes);
        SyncWarp();
      }
#pragma unroll
      for (int m = 2 * row; m < 2 * row + 2; ++m) {
#pragma unroll
        for (int pair = 0; pair < 2; ++pair) {
          const int group = m % 2 * 16 + SumGroup(lane, pair);
          auto* const at = SharedAt<uint32_t>(passed + group * kPixelBytes + SumColumn(lane) * 2);
          float first = low.Apply(sums[m][n][2 * pair]);
          float second = high.Apply(sums[m][n][2 * pair + 1]);
          if (adds) {
            first = low.Add(first, LowHalf(*at));
            second = high.Add(second, HighHalf(*at));
          }
          *at = PackHalves(first, second);
        }
      }
      SyncWarp();
      pixels.Store(params, row, passed + lane * kPixelBytes);
    }
  }
}

// Stores a warp's sums, rows of 32 groups (two runs each) from `place` on, by columns from
// `first_column` on. One copy of the storing code serves them all. It selects the sums, because
// they must stay in registers.
template <int kRuns, int kColumns>
UPSCALED_DEVICE void StoreSums(const ConvParams& params, uint32_t transfer, int first_column,
                               const BlockPlace& place,
                               const float (&sums)[kRuns][kColumns / 8][4]) {
  static_assert(kRuns * 16 <= CountedSum::kMaxValues);
  if (StoresHalves(params) && params.sums.data == nullptr) {
    StoreHalfSums<kRuns, kColumns>(params, transfer, first_column, place, sums);
    return;
  }
  const int lane = ThreadIndex() % kWarpThreads;
#pragma unroll 1
  for (int n = 0; n < kColumns / 8; ++n) {
    WarpSums pooled;
#pragma unroll 1
    for (int row = 0; row < kRuns / 2; ++row) {
      SyncWarp();  // the values passed before have been read
#pragma unroll
      for (int m = 0; m < kRuns; ++m) {
#pragma unroll
        for (int k = 0; k < kColumns / 8; ++k) {
          if (m / 2 != row || k != n) continue;
#pragma unroll
          for (int pair = 0; pair < 2; ++pair) {
            const int group = m % 2 * 16 + SumGroup(lane, pair);
            Store<2>(&sums[m][k][2 * pair],
                     SharedAt<float>(transfer + TransferAddress(group, SumColumn(lane))));
          }
        }
      }
      SyncWarp();
      float columns[kPlaneChannels];
      Load<4>(SharedAt<float>(transfer + TransferAddress(lane, 0)), columns);
      Load<4>(SharedAt<float>(transfer + TransferAddress(lane, 4)), columns + 4);
      StorePooledColumns(params, first_column + n * 8, place.x + lane, place.y + row, place.tile,
                         columns, transfer, pooled);
    }
    MovePooledColumns(params, first_column + n * 8, place.tile, pooled);
  }
}

}  // namespace upscaled::cuda
