// The blockings of conv3x3_ws_kernel.h; see there for their meaning.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>

#include "engine/backends/cuda/kernels/conv_params.h"
#include "engine/backends/cuda/kernels/mma_tile.h"
#include "engine/backends/cuda/kernels/portable.h"
#include "engine/base/int_math.h"

namespace upscaled::cuda {

// Where results go.
enum class WsResult : uint8_t {
  kPlanes,  // to whole planes, by the copy engine
  kThin,    // of at most kThinColumns channels, shuffled or not: by threads, as samples or a plane
  kEnlarged,  // of a 2x2 convolution that is transposed, with stride 2: to whole planes, by the
              // copy engine, which steps over every second row
};

// One of the compiled blockings.
struct WsVariant {
  int rows = 32;   // of groups in a group's tile: N / 8
  int pixels = 1;  // of a group, one above the other: so few columns fill a product's 64 rows
  WsResult result = WsResult::kPlanes;
  bool together = false;  // or ping-pong
  bool adds = false;      // a residual, brought by the copy engine
  int staged_planes = 2;  // that a warp stages at once for the engine to store:
                          // 1 takes half the memory

  friend constexpr bool operator==(const WsVariant&, const WsVariant&) = default;

  static constexpr int kThreads = 384, kMinStages = 3, kMaxStages = 16;
  static constexpr int kMaxUnits = 16;
  static constexpr int kProductRows = 64;

  UPSCALED_HD constexpr int taps() const { return result == WsResult::kEnlarged ? 1 : 3; }
  UPSCALED_HD constexpr int columns() const { return kProductRows / pixels; }
  UPSCALED_HD constexpr int sums() const { return 4 * rows; }  // of a thread
  // Two warps have the same columns of every second row of pixels, and share the staging.
  UPSCALED_HD constexpr bool warps_pair() const {
    return result == WsResult::kPlanes && pixels == 2;
  }
  // Pixels of a tile, and with its halo.
  UPSCALED_HD constexpr int width() const { return together ? 16 : 8; }
  UPSCALED_HD constexpr int height() const { return pixels * rows; }
  UPSCALED_HD constexpr int box_width() const { return width() + taps() - 1; }
  UPSCALED_HD constexpr int box_height() const { return height() + taps() - 1; }
  UPSCALED_HD constexpr uint32_t plane_bytes() const {
    return box_width() * box_height() * kPixelBytes;
  }
  UPSCALED_HD constexpr uint32_t box_bytes() const { return kStepPlanes * plane_bytes(); }
  // Rows of a group's inputs, and the products of a unit.
  UPSCALED_HD constexpr int input_rows() const { return taps() + pixels - 1; }
  UPSCALED_HD constexpr int products() const { return input_rows() * taps(); }

  // The layer's column at the product's row `row` of a block; the layer's number of columns for a
  // padding row. Enlarged: a warp's 16 rows are two pixels side by side of one plane, and a block
  // has one of the two rows of pixels.
  UPSCALED_HD constexpr int PlaneBlocks(const ConvShape& shape) const {
    return CeilDiv(PlaneCount(shape.out_channels), kEnlargedPlanes);
  }
  UPSCALED_HD constexpr int ColumnBlocks(const ConvShape& shape) const {
    return result == WsResult::kEnlarged ? 2 * PlaneBlocks(shape)
                                         : CeilDiv(shape.Columns(), columns());
  }
  UPSCALED_HD constexpr int LayerColumn(const ConvShape& shape, int block, int row) const {
    if (result != WsResult::kEnlarged) return block * columns() + row % columns();
    const int blocks = PlaneBlocks(shape), pixel_y = block / blocks;
    const int plane = (block - pixel_y * blocks) * kEnlargedPlanes + row / 16;
    const int pixel = pixel_y * 2 + row / kPlaneChannels % 2;
    return plane < PlaneCount(shape.out_channels)
               ? pixel * shape.PixelColumns() + plane * kPlaneChannels + row % kPlaneChannels
               : shape.Columns();
  }
  static constexpr int kEnlargedPlanes = 4;  // of a block

  // Weights of a unit: [tap][plane][64 columns][8 halves]; of several pixels [tap's
  // x][plane][blocks of columns][8 halves].
  UPSCALED_HD constexpr int weight_rows() const {
    return pixels > 1 ? (2 * pixels + 1) * columns() : kProductRows;
  }
  UPSCALED_HD constexpr uint32_t tap_bytes() const {
    return kStepPlanes * weight_rows() * kPixelBytes;
  }
  UPSCALED_HD constexpr uint32_t unit_bytes() const {
    return (pixels > 1 ? taps() : taps() * taps()) * tap_bytes();
  }
  // With several pixels, the operand of the row `tap_y` of inputs begins at the address of column
  // 0.
  UPSCALED_HD constexpr uint32_t WeightAddress(int tap_y, int tap_x, int channel,
                                               int column) const {
    const int row = pixels > 1 ? (pixels + 1 - tap_y) * columns() + column : column;
    const uint32_t tap = pixels > 1 ? tap_x : tap_y * taps() + tap_x;
    return tap * tap_bytes() + (channel / kPlaneChannels * weight_rows() + row) * kPixelBytes +
           channel % kPlaneChannels * 2;
  }

  // Shared memory: weights, unless they come with the units; staging of both groups; stages;
  // barriers.
  UPSCALED_HD constexpr uint32_t weight_bytes(int units) const {
    return together ? 0 : units * unit_bytes();
  }
  UPSCALED_HD constexpr uint32_t staged_plane_bytes() const { return height() * 8 * kPixelBytes; }
  // Thin results pass as floats, some rows of groups at a time: [row][group][16 columns, and 4 to
  // keep writing lanes apart in the banks].
  static constexpr int kThinPitch = 20;
  UPSCALED_HD constexpr int thin_rows() const { return pixels == 8 ? 2 : 4; }
  UPSCALED_HD constexpr uint32_t warp_staging() const {
    return result == WsResult::kThin ? thin_rows() * 8 * kThinPitch * sizeof(float)
                                     : staged_planes * staged_plane_bytes();
  }
  UPSCALED_HD constexpr uint32_t group_staging() const {
    return (warps_pair() ? 2 : 4) * warp_staging();
  }
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
    return int64_t{units} * products() * (4 * rows + kProductClocks) * (together ? 2 : 1);
  }
};

// Heights are for those of images: 27 of 270, 540 and 1080; 25 and 23 where 132 multiprocessors
// share 480x270. 4 x 27 divides 540, 8 x 15 divides 1080.
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
    {.rows = 32, .pixels = 2},
    {.rows = 23, .pixels = 2},
    {.rows = 16, .pixels = 2},
    {.rows = 23, .pixels = 2, .staged_planes = 1},
    {.rows = 23, .pixels = 2, .adds = true},
    {.rows = 32, .result = WsResult::kThin},
    {.rows = 25, .result = WsResult::kThin},
    {.rows = 27, .pixels = 4, .result = WsResult::kThin},
    {.rows = 15, .pixels = 8, .result = WsResult::kThin},
    {.rows = 32, .result = WsResult::kEnlarged},
    {.rows = 32, .result = WsResult::kEnlarged, .adds = true},
};
inline constexpr int kWsVariantCount = static_cast<int>(std::size(kWsVariants));

}  // namespace upscaled::cuda
