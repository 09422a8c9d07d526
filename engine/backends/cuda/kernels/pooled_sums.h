// Sums of global poolings as kernels add them up: integers, so neither order nor grouping matters.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "engine/backends/cuda/kernels/device.h"
#include "engine/backends/cuda/kernels/storage.h"
#include "engine/backends/cuda/kernels/tensor_view.h"

namespace upscaled::cuda {

// A sum of up to kMaxValues values, each rounded as ChannelSums::Round does: to a multiple of 2^-24
// within +-2^16; NaN counts as the upper limit. Split into two integers of 32 bits by
// additions of floats: of conversions to 64 bits sm_86 and 89 do 2 a clock.
struct CountedSum {
  static constexpr int kMaxValues = 1024;

  int eighths = 0;
  int units = 0;  // multiples of 2^-24; those of one value are within an eighth

  UPSCALED_DEVICE void Add(float value) {
    constexpr float kLimit = 1 << 16;
    // Floats next to these are an eighth and a unit apart, so their bits count them.
    constexpr float kEighths = 1.5f * (1 << 20), kUnits = 0.75f;
    const float clamped = fmaxf(fminf(value, kLimit), -kLimit);  // fminf takes the number of two
    const float shifted = clamped + kEighths, rest = clamped - (shifted - kEighths);
    eighths += std::bit_cast<int>(shifted) - std::bit_cast<int>(kEighths);
    units += std::bit_cast<int>(rest + kUnits) - std::bit_cast<int>(kUnits);
  }

  UPSCALED_DEVICE int64_t Units() const { return int64_t{eighths} * (1 << 21) + units; }
};

// A warp's sums of a plane's channels; a lane has one channel of every fourth pixel. For up to
// kMaxValues pixels.
struct WarpSums {
  CountedSum own;

  // A pixel's values of each lane, as halves; they count inside of the part. `transfer`: 512 bytes
  // of the warp's own shared memory.
  UPSCALED_DEVICE void Add(const PooledSums& sums, uint32_t transfer, int x, int y,
                           float (&values)[kPlaneChannels]) {
    const int lane = ThreadIndex() % kWarpThreads;
    if (!IsInside(sums.part, x, y)) {
#pragma unroll
      for (float& value : values) value = 0;
    }
    SyncWarp();  // the values passed before have been read
    Store<kPlaneChannels>(values, SharedAt<Half>(transfer) + lane * kPlaneChannels);
    SyncWarp();
    AddPassed(transfer, [](int /*pixel*/) { return true; });
  }

  // The same of 32 pixels' halves at `passed`; counts(pixel) tells whether one counts.
  template <typename Counts>
  UPSCALED_DEVICE void AddPassed(uint32_t passed, const Counts& counts) {
    const int lane = ThreadIndex() % kWarpThreads;
#pragma unroll
    for (int i = 0; i < kPlaneChannels; ++i) {
      const int at = i * kWarpThreads + lane;
      if (counts(at / kPlaneChannels)) own.Add(ToFloat(SharedAt<const Half>(passed)[at]));
    }
  }

  // To the pooled layer's sums.
  UPSCALED_DEVICE void MoveTo(const PooledSums& sums, int tile, int planes, int plane) {
    const int lane = ThreadIndex() % kWarpThreads;
#pragma unroll
    for (int other = kPlaneChannels; other < kWarpThreads; other *= 2) {
      own.eighths += ShuffleXor(own.eighths, other);
      own.units += ShuffleXor(own.units, other);
    }
    if (lane >= kPlaneChannels || plane >= planes) return;
    AtomicAdd(sums.data + (int64_t{tile} * planes + plane) * kPlaneChannels + lane, own.Units());
  }
};

}  // namespace upscaled::cuda
