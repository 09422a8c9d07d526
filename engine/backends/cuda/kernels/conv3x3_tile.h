// Tiles of the 3x3 kernels for tensor cores: pixels come in units of 16 channels (two planes) of a
// block's groups, with the halo of the nine taps.
#pragma once

#include <cstdint>

#include "engine/backends/cuda/kernels/conv_tiles.h"
#include "engine/backends/cuda/kernels/device.h"
#include "engine/backends/cuda/kernels/mma_tile.h"
#include "engine/backends/cuda/kernels/storage.h"

namespace upscaled::cuda {

template <int kGroupColumns, int kGroupRows>
struct Conv3x3Tile {
  static constexpr int kTaps = 3, kTapCount = kTaps * kTaps;
  static constexpr int kWidth = kGroupColumns, kHeight = kGroupRows;  // groups
  static constexpr int kHaloWidth = kWidth + kTaps - 1, kHaloHeight = kHeight + kTaps - 1;
  static constexpr int kPlanePixels = kHaloWidth * kHaloHeight;
  static constexpr int kUnitPixels = kStepPlanes * kPlanePixels;
  static constexpr uint32_t kStageBytes = kUnitPixels * kPixelBytes;

  UPSCALED_HD static constexpr int Units(const ConvShape& shape) {
    return (shape.in_channels + kStepChannels - 1) / kStepChannels;
  }
};

// Starts the copies of a unit by the first kCopyThreads threads; beyond the source's region come
// zeros.
template <typename Tile>
UPSCALED_DEVICE void CopyUnit(const ConvParams& params, const BlockPlace& place, int unit,
                              uint32_t stage) {
  const int first_x = place.x + params.shape.offset, first_y = place.y + params.shape.offset;
  const int planes = PlaneCount(params.src.channels);
#pragma unroll Tile::kCopyUnroll
  for (int i = ThreadIndex(); i < Tile::kUnitPixels; i += Tile::kCopyThreads) {
    const int row = i / Tile::kHaloWidth, x = first_x + i % Tile::kHaloWidth;
    const int y = first_y + row % Tile::kHaloHeight;
    const int plane = unit * kStepPlanes + row / Tile::kHaloHeight;
    const bool inside = plane < planes && IsInside(params.src.region, x, y);
    const Half* const from = inside ? PixelAt<Half>(params.src, place.tile, plane, x, y)
                                    : static_cast<const Half*>(params.src.data);
    CopyAsync16(stage + i * kPixelBytes, from, inside);
  }
}

}  // namespace upscaled::cuda
