// Any convolution in fp32 arithmetic: for `exact`, and in halves for layers tensor cores do not
// compute, or devices without them. As im2col_mma_kernel.h, a product over virtual planes
// [tap][plane].
//
// A block of 256 threads computes 32x8 groups by kColumns columns; a thread 8 columns of kGroups
// groups of a row, as two quads half the columns apart, so neighbouring threads read neighbouring
// weights. Shared memory holds a virtual plane's 8 channels and their weights twice: one is
// multiplied while the next, loaded into registers, is stored.
//
// Sums run over taps, planes and channels in one order wherever a block lies.
#pragma once

#include <cstdint>

#include "engine/backends/cuda/kernels/conv_tiles.h"
#include "engine/backends/cuda/kernels/epilogue.h"
#include "engine/backends/cuda/kernels/storage.h"

namespace upscaled::cuda {

template <int kBlockColumns>
struct Im2colFfma {
  static constexpr int kColumns = kBlockColumns;
  static constexpr int kThreads = 256;
  static constexpr int kWidth = 32, kHeight = 8, kGroupCount = kWidth * kHeight;
  static constexpr int kColumnThreads = kColumns / 8;
  static constexpr int kGroups = kGroupCount * kColumnThreads / kThreads;  // per thread
  static constexpr int kWeights = kPlaneChannels * kColumns;               // per virtual plane
  static constexpr int kThreadWeights = (kWeights + kThreads - 1) / kThreads;

  // [channel][group], [channel][column], twice; then the sums of 8 columns, for the storing
  // threads.
  static constexpr uint32_t kGroupBytes = kPlaneChannels * kGroupCount * sizeof(float);
  static constexpr uint32_t kStageBytes = kGroupBytes + kWeights * sizeof(float);
  static constexpr uint32_t kSharedBytes = 2 * kStageBytes;
  // Half `half` of a thread's columns.
  UPSCALED_HD static constexpr int QuadColumn(int column_thread, int half) {
    return half * (kColumns / 2) + column_thread * 4;
  }
  UPSCALED_HD static constexpr uint32_t SumAddress(int group, int quad) {
    return (quad * kGroupCount + group) * 4 * sizeof(float);
  }
};

// A thread's part of a virtual plane, before it is in shared memory: one group's channels and some
// weights.
template <typename Storage, typename Tile>
struct VirtualPlane {
  float channels[kPlaneChannels];
  float weights[Tile::kThreadWeights];

  UPSCALED_DEVICE void Load(const ConvParams& params, int tile, int group_x, int group_y, int index,
                            const float* all_weights) {
    const ConvShape& shape = params.shape;
    const int planes = PlaneCount(shape.in_channels);
    const int tap = index / planes, plane = index - tap * planes;
    const int tap_y = tap / shape.taps, tap_x = tap - tap_y * shape.taps;
    const int x = group_x * shape.in_stride + shape.offset + tap_x;
    const int y = group_y * shape.in_stride + shape.offset + tap_y;
#pragma unroll
    for (int i = 0; i < kPlaneChannels; ++i) channels[i] = 0;
    if (IsInside(params.src.region, x, y)) {
      cuda::Load<kPlaneChannels>(PixelAt<Storage>(params.src, tile, plane, x, y), channels);
    }
#pragma unroll
    for (int i = 0; i < Tile::kThreadWeights; ++i) {
      const int at = ThreadIndex() + i * Tile::kThreads;
      if (at < Tile::kWeights) weights[i] = all_weights[int64_t{index} * Tile::kWeights + at];
    }
  }

  UPSCALED_DEVICE void Store(uint32_t stage) const {
    const int thread = ThreadIndex();
#pragma unroll
    for (int i = 0; i < kPlaneChannels; ++i) {
      SharedAt<float>(stage)[i * Tile::kGroupCount + thread] = channels[i];
    }
#pragma unroll
    for (int i = 0; i < Tile::kThreadWeights; ++i) {
      const int at = thread + i * Tile::kThreads;
      if (at < Tile::kWeights) SharedAt<float>(stage + Tile::kGroupBytes)[at] = weights[i];
    }
  }
};

template <typename Tile>
UPSCALED_DEVICE void MultiplyPlane(uint32_t stage, int first_group, int column_thread,
                                   float (&sums)[Tile::kGroups][8]) {
  constexpr int kRun = Tile::kGroups < 4 ? Tile::kGroups : 4;
#pragma unroll 1
  for (int channel = 0; channel < kPlaneChannels; ++channel) {
    const float* const groups = SharedAt<float>(stage) + channel * Tile::kGroupCount + first_group;
    const float* const row = SharedAt<float>(stage + Tile::kGroupBytes) + channel * Tile::kColumns;
    float in[Tile::kGroups], weights[8];
#pragma unroll
    for (int g = 0; g < Tile::kGroups; g += kRun) Load<kRun>(groups + g, in + g);
    Load<4>(row + Tile::QuadColumn(column_thread, 0), weights);
    Load<4>(row + Tile::QuadColumn(column_thread, 1), weights + 4);
#pragma unroll
    for (int g = 0; g < Tile::kGroups; ++g) {
#pragma unroll
      for (int i = 0; i < 8; ++i) sums[g][i] = fmaf(weights[i], in[g], sums[g][i]);
    }
  }
}

template <typename Storage, int kBlockColumns>
UPSCALED_DEVICE void RunIm2colFfma(const ConvParams& params, const BlockGrid& grid) {
  using Tile = Im2colFfma<kBlockColumns>;
  const int thread = ThreadIndex(), column_thread = thread % Tile::kColumnThreads;
  const int first_group = thread / Tile::kColumnThreads * Tile::kGroups;
  const ConvShape& shape = params.shape;
  const BlockPlace place = PlaceOf(grid, BlockX());
  const int x = place.x + thread % Tile::kWidth, y = place.y + thread / Tile::kWidth;
  const int count = shape.taps * shape.taps * PlaneCount(shape.in_channels);
  const float* const weights =
      static_cast<const float*>(params.weights) + int64_t{BlockY()} * count * Tile::kWeights;

  float sums[Tile::kGroups][8] = {};
  VirtualPlane<Storage, Tile> plane;
  plane.Load(params, place.tile, x, y, 0, weights);
  plane.Store(0);
#pragma unroll 1
  for (int i = 0; i < count; ++i) {
    SyncThreads();  // plane i is there, and nobody reads the one before any more
    if (i + 1 < count) plane.Load(params, place.tile, x, y, i + 1, weights);
    MultiplyPlane<Tile>(i % 2 * Tile::kStageBytes, first_group, column_thread, sums);
    if (i + 1 < count) plane.Store((i + 1) % 2 * Tile::kStageBytes);
  }
  // 8 columns after the other: the threads pass them on, and each stores one group's.
#pragma unroll 1
  for (int column = 0; column < Tile::kColumns; column += 8) {
    SyncThreads();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int quad = Tile::QuadColumn(column_thread, half) - column;
      if (quad != 0 && quad != 4) continue;
#pragma unroll
      for (int g = 0; g < Tile::kGroups; ++g) {
        Store<4>(&sums[g][half * 4], SharedAt<float>(Tile::SumAddress(first_group + g, quad / 4)));
      }
    }
    SyncThreads();
    float columns[kPlaneChannels];
    Load<4>(SharedAt<float>(Tile::SumAddress(thread, 0)), columns);
    Load<4>(SharedAt<float>(Tile::SumAddress(thread, 1)), columns + 4);
    StoreColumns<Storage>(params, BlockY() * Tile::kColumns + column, x, y, place.tile, columns);
  }
}

}  // namespace upscaled::cuda
