// The two ends of a global pooling.
#pragma once

#include <cstdint>

#include "engine/backends/cuda/kernels/activation.h"
#include "engine/backends/cuda/kernels/elementwise_kernel.h"
#include "engine/backends/cuda/kernels/pooled_sums.h"
#include "engine/backends/cuda/kernels/storage.h"

namespace upscaled::cuda {

struct SumChannelsParams {
  TensorView src;
  PooledSums sums;
};

struct LoadMeansParams {
  const float* means;  // [tile][channel, rounded up to planes]
  TensorView dst;
  ActivationParams activation;
  const float* constants;
};

struct SumChannels {
  static constexpr int kThreads = 256;
  static constexpr int kMaxBlocks = 64;  // per plane and tile

  static_assert(kMaxSummedPixels <= int64_t{kMaxBlocks} * kThreads * CountedSum::kMaxValues);

  static constexpr uint32_t kSharedBytes = kThreads * kPlaneChannels * sizeof(int64_t);
};

// Blocks [part of the pixels][plane][tile]. Each adds up in shared memory, then to `sums`.
template <typename Storage>
UPSCALED_DEVICE void RunSumChannels(const SumChannelsParams& params) {
  using Tile = SumChannels;
  const int thread = ThreadIndex(), plane = BlockY(), tile = BlockZ();
  const Rect& part = params.sums.part;
  const int area = part.width * part.height;
  CountedSum sums[kPlaneChannels];
  for (int i = BlockX() * Tile::kThreads + thread; i < area; i += GridX() * Tile::kThreads) {
    const int y = i / part.width, x = i - y * part.width;
    float values[kPlaneChannels];
    Load<kPlaneChannels>(PixelAt<Storage>(params.src, tile, plane, part.x + x, part.y + y), values);
#pragma unroll
    for (int c = 0; c < kPlaneChannels; ++c) sums[c].Add(values[c]);
  }
  int64_t* const shared = SharedAt<int64_t>(0);
#pragma unroll
  for (int c = 0; c < kPlaneChannels; ++c) shared[c * Tile::kThreads + thread] = sums[c].Units();
  for (int half = Tile::kThreads / 2; half > 0; half /= 2) {
    SyncThreads();
    if (thread >= half) continue;
#pragma unroll
    for (int c = 0; c < kPlaneChannels; ++c) {
      shared[c * Tile::kThreads + thread] += shared[c * Tile::kThreads + thread + half];
    }
  }
  SyncThreads();
  if (thread >= kPlaneChannels) return;
  const int channels = PlaneCount(params.src.channels) * kPlaneChannels;
  AtomicAdd(params.sums.data + int64_t{tile} * channels + plane * kPlaneChannels + thread,
            shared[thread * Tile::kThreads]);
}

template <typename Storage>
UPSCALED_DEVICE void RunLoadMeans(const LoadMeansParams& params) {
  PlanePixel at;
  const int planes = PlaneCount(params.dst.channels);
  if (!FindPixel({0, 0, 1, 1}, at)) return;
  float values[kPlaneChannels], slope[kPlaneChannels];
  Load<kPlaneChannels>(params.means + (int64_t{at.tile} * planes + at.plane) * kPlaneChannels,
                       values);
  Load<kPlaneChannels>(params.constants + at.plane * kPlaneConstants + kSlopes, slope);
#pragma unroll
  for (int c = 0; c < kPlaneChannels; ++c) {
    values[c] = Activate(values[c], slope[c], params.activation);
  }
  Store<kPlaneChannels>(values, MutablePixelAt<Storage>(params.dst, at.tile, at.plane, 0, 0));
}

}  // namespace upscaled::cuda
