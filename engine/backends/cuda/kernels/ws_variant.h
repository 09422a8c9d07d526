// The blockings of conv3x3_ws_kernel.h, which says what they mean.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>

#include "engine/backends/cuda/kernels/mma_tile.h"
#include "engine/backends/cuda/kernels/portable.h"

namespace upscaled::cuda {

// One of the blockings that are compiled.
struct WsVariant {
  int rows = 32;  // of groups in a group's tile: N / 8
  bool pairs = false;
  bool together = false;  // or ping-pong
  bool adds = false;      // a residual
  int staged_planes = 2;  // that a warp stages at once for the engine to store:
                          // 1 takes half the memory

  friend constexpr bool operator==(const WsVariant&, const WsVariant&) = default;

  static constexpr int kThreads = 384, kMinStages = 3, kMaxStages = 16;
  static constexpr int kMaxUnits = 16;

  UPSCALED_HD constexpr int columns() const { return pairs ? 32 : 64; }
  UPSCALED_HD constexpr int sums() const { return 4 * rows; }  // of a thread
  // Pixels of a tile, and with its halo.
  UPSCALED_HD constexpr int width() const { return together ? 16 : 8; }
  UPSCALED_HD constexpr int height() const { return pairs ? 2 * rows : rows; }
  UPSCALED_HD constexpr int box_width() const { return width() + 2; }
  UPSCALED_HD constexpr int box_height() const { return height() + 2; }
  UPSCALED_HD constexpr uint32_t plane_bytes() const {
    return box_width() * box_height() * kPixelBytes;
  }
  UPSCALED_HD constexpr uint32_t box_bytes() const { return kStepPlanes * plane_bytes(); }

  // Weights of a unit: [tap][plane][64 columns][8 halves]; of pairs [tap's x][plane][5 blocks of
  // 32][8 halves].
  UPSCALED_HD constexpr int weight_rows() const { return pairs ? 5 * 32 : 64; }
  UPSCALED_HD constexpr uint32_t tap_bytes() const {
    return kStepPlanes * weight_rows() * kPixelBytes;
  }
  UPSCALED_HD constexpr uint32_t unit_bytes() const { return (pairs ? 3 : 9) * tap_bytes(); }
  UPSCALED_HD constexpr uint32_t WeightAddress(int tap_y, int tap_x, int channel,
                                               int column) const {
    const int row = pairs ? (3 - tap_y) * 32 + column : column;
    const uint32_t tap = pairs ? tap_x : tap_y * 3 + tap_x;
    return tap * tap_bytes() + (channel / kPlaneChannels * weight_rows() + row) * kPixelBytes +
           channel % kPlaneChannels * 2;
  }

  // Shared memory: weights, unless they come with the units; staging of both groups; stages;
  // barriers.
  UPSCALED_HD constexpr uint32_t weight_bytes(int units) const {
    return together ? 0 : units * unit_bytes();
  }
  UPSCALED_HD constexpr uint32_t staged_plane_bytes() const { return height() * 8 * kPixelBytes; }
  UPSCALED_HD constexpr uint32_t warp_staging() const {
    return staged_planes * staged_plane_bytes();
  }
  UPSCALED_HD constexpr uint32_t group_staging() const { return (pairs ? 2 : 4) * warp_staging(); }
  UPSCALED_HD constexpr uint32_t stages_at(int units) const {
    return weight_bytes(units) + 2 * group_staging();
  }
  UPSCALED_HD constexpr uint32_t stage_bytes() const {
    return (box_bytes() + 127) / 128 * 128 + (together ? unit_bytes() : 0);
  }
  UPSCALED_HD constexpr uint32_t barriers_at(int units, int stages) const {
    return stages_at(units) + stages * stage_bytes();
  }
  // full and empty of each stage, weights of each unit, a turn for each group, a residual for each
  // warp
  UPSCALED_HD constexpr uint32_t SharedBytes(int units, int stages) const {
    return barriers_at(units, stages) + (2 * stages + kMaxUnits + 2 + 8) * 8;
  }
  // As many as fit; less than kMinStages: it does not fit.
  constexpr int Stages(int units, size_t shared_bytes) const {
    int stages = kMaxStages;
    while (stages > 0 && SharedBytes(units, stages) > shared_bytes) --stages;
    return stages;
  }
  // Estimates the clocks of the tensor cores for a tile. Each product takes 4 a row of groups, and
  // kProductClocks: short ones reach less of the full rate (assumed, no device has told).
  constexpr int64_t Clocks(int units) const {
    constexpr int kProductClocks = 16;
    return int64_t{units} * (pairs ? 12 : 9) * (4 * rows + kProductClocks) * (together ? 2 : 1);
  }
};

// Heights are for those of images: 27 of 270, 540 and 1080; 25 and 23 where 132 multiprocessors
// share 480x270.
inline constexpr WsVariant kWsVariants[] = {
    {.rows = 32},
    {.rows = 27},
    {.rows = 25},
    {.rows = 16},
    {.rows = 32, .adds = true},
    {.rows = 32, .staged_planes = 1},
    {.rows = 27, .staged_planes = 1},
    {.rows = 32, .together = true},
    {.rows = 32, .together = true, .adds = true},
    {.rows = 22, .together = true, .adds = true},
    {.rows = 32, .pairs = true},
    {.rows = 23, .pairs = true},
    {.rows = 16, .pairs = true},
    {.rows = 23, .pairs = true, .staged_planes = 1},
    {.rows = 23, .pairs = true, .adds = true},
};
inline constexpr int kWsVariantCount = static_cast<int>(std::size(kWsVariants));

}  // namespace upscaled::cuda
