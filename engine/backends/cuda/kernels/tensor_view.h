// Tensors and images in the device's memory, as kernels take them.
#pragma once

#include <cstdint>

#include "engine/backends/cuda/kernels/portable.h"
#include "engine/base/geometry.h"

namespace upscaled::cuda {

// Channels in a plane: 16 bytes of halves, copied at once by one thread.
inline constexpr int kPlaneChannels = 8;

UPSCALED_HD constexpr int PlaneCount(int channels) {
  return (channels + kPlaneChannels - 1) / kPlaneChannels;
}

// A rectangle of one layer's output: [plane][y][x][8 channels] of halves or floats, rows and planes
// without gaps; for each tile of a batch. Lanes beyond the last channel hold finite values.
//
// Coordinates are the whole layer's. Only the layer's edges and the remainders by strides and
// factors depend on them, so tiles with equal ones make a batch.
struct TensorView {
  void* data = nullptr;  // address of (rect.x, rect.y), 16-byte aligned
  Rect rect;             // the pixels in memory; several layers may lie in the planes of one
  Rect region;           // the part that is written, and read: beyond it is zero padding
  Size layer;            // the whole layer's
  int channels = 0;
  int64_t tile_stride = 0;  // from one tile of a batch to the next, in pixels of a plane
};

// Index of a pixel's 8 channels, in units of 8 values. `tile`: of the batch. A tile has less than
// 2^31 pixels in all planes, even if a last block of threads is filled up (kMaxTilePixels), to save
// kernels 64-bit arithmetic.
inline constexpr int64_t kMaxTilePixels = (int64_t{1} << 31) - 1024;
UPSCALED_HD inline int64_t PixelIndex(const TensorView& view, int tile, int plane, int x, int y) {
  const int in_tile =
      (plane * view.rect.height + y - view.rect.y) * view.rect.width + x - view.rect.x;
  return tile * view.tile_stride + in_tile;
}

UPSCALED_HD inline bool IsInside(const Rect& rect, int x, int y) {
  return static_cast<unsigned>(x - rect.x) < static_cast<unsigned>(rect.width) &&
         static_cast<unsigned>(y - rect.y) < static_cast<unsigned>(rect.height);
}

// As upscaled::SampleType.
enum class SampleKind : uint8_t { kU8, kU16, kF32 };
UPSCALED_HD constexpr int BytesOf(SampleKind kind) { return 1 << static_cast<int>(kind); }

// Interleaved samples of a part of an image, rows without gaps; for each tile of a batch.
struct SampleView {
  void* data = nullptr;
  SampleKind kind = SampleKind::kU8;
  int channels = 3;         // 3 or 4: the fourth is skipped when read; what is written has 3
  Rect rect;                // the pixels in memory, in the image's coordinates
  int64_t tile_stride = 0;  // from one tile of a batch to the next, in samples
  // Where samples are written and this is not null: set to 1 for each tile with a non-finite value.
  uint32_t* lost = nullptr;
};

// A global pooling's sums over a part of the pooled layer, in units of 2^-24. Kernels add to it. A
// value counts as at most 2^40 units, so an int64 holds the sum of kMaxSummedPixels.
struct PooledSums {
  int64_t* data = nullptr;  // [tile][channel, rounded up to planes]
  Rect part;                // within TensorView::region
};
inline constexpr int64_t kMaxSummedPixels = int64_t{1} << 22;

// The index of a pixel's first sample.
UPSCALED_HD inline int64_t SampleIndex(const SampleView& view, int tile, int x, int y) {
  return tile * view.tile_stride +
         (int64_t{y - view.rect.y} * view.rect.width + x - view.rect.x) * view.channels;
}

}  // namespace upscaled::cuda
