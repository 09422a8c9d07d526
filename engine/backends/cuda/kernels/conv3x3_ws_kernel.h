// 3x3 convolution with stride 1 on the tensor cores of sm_90a (wgmma), halves in and out, sums in
// fp32: as conv3x3_wgmma_kernel.h, warp specialised. The same products in the same order: the same
// bits. ws_variant.h lists its blockings, and their shapes.
//
// A persistent block has three groups of 128 threads. One thread of the first has the copy engine
// bring units of 16 channels of a tile, with its halo, into a ring of stages. Two groups multiply
// (m64nNk16): a product's 64 rows are columns, its N = 8 * rows columns groups, 8 in a row of
// pixels. No thread tests a coordinate: the engine pads, and cuts off (tensor_map.h).
//
// Ping-pong: each group has a tile of its own, 8 pixels wide, and takes turns: while one stores,
// the other multiplies. Together: both take halves of one tile, 16 pixels wide, and share the
// weights of each unit; for layers with weights too large to fit.
//
// Groups of several pixels, one above the other, for few columns: 2 x 32, 4 x 16 or 8 x 8 columns
// fill the rows. n + 2 rows of inputs by 3 taps are the products: of n = 2, 12 for the 18 halves
// needed. The weights lie as [n zeros, W(2), W(1), W(0), n zeros] without the outermost zeros, in
// blocks of columns: the operand of input row r begins at block n + 1 - r, with W(r - p) for pixel
// p. A zero times NaN is NaN, and so reaches all pixels of a group. Groups begin at multiples of n
// in the layer, and plans round regions outward to whole groups (Program::block_px): a pixel has
// the same group, and the same inputs, in every tile.
//
// Enlarged: a transposed 2x2 convolution with stride 2 is one tap with four times the columns. The
// engine stores every second row of pixels; both pixels of a row pass through one staging.
//
// Thin: results of at most 4 channels pass through the staging as floats, and threads store them
// as epilogue.h does: samples, a residual of lower resolution, shuffled pixels.
//
// Waits give up in the end (Patience), and the kernel then stores NaN: it never hangs, and a tile
// with NaN is computed again by other kernels.
#pragma once

#include <cstdint>
#include <limits>

#include "engine/backends/cuda/kernels/conv3x3_tile.h"
#include "engine/backends/cuda/kernels/conv_tiles.h"
#include "engine/backends/cuda/kernels/device.h"
#include "engine/backends/cuda/kernels/half_epilogue.h"
#include "engine/backends/cuda/kernels/mma_tile.h"
#include "engine/backends/cuda/kernels/pooled_sums.h"
#include "engine/backends/cuda/kernels/tensor_map.h"
#include "engine/backends/cuda/kernels/wgmma_operand.h"
#include "engine/backends/cuda/kernels/ws_variant.h"

namespace upscaled::cuda {

// Where results go, and the residual comes from. Enlarged, of one of the two rows of pixels.
struct WsResultMaps {
  TensorMap dst, residual;
  int first_y = 0;  // the result's row that is the maps' first
  bool empty = false;
};

// One launch.
struct WsParams {
  TensorMap src;
  WsResultMaps results[2];  // the second one is for enlarged results
  ConvParams conv;
  BlockGrid grid;
  int units = 0;  // of 16 channels
  int stages = 0;
};

// Where barriers lie, 8 bytes each.
struct WsBarriers {
  uint32_t full, empty, weights, turn, residual;

  UPSCALED_DEVICE WsBarriers(const WsVariant& variant, const WsParams& params) {
    full = variant.barriers_at(params.units, params.stages);
    empty = full + params.stages * 8;
    weights = empty + params.stages * 8;
    turn = weights + WsVariant::kMaxUnits * 8;
    residual = turn + 2 * 8;
  }
};

// A place in the ring of stages.
struct WsRing {
  int stage = 0;
  int phase = 0;  // how often the stages have been gone through, modulo 2

  UPSCALED_DEVICE void Skip(int count, int stages) {
    for (stage += count; stage >= stages; stage -= stages) phase ^= 1;
  }
};

// One thread has everything copied in. Coordinates of boxes are the regions'.
template <WsVariant kVariant>
UPSCALED_DEVICE void WsCopyUnits(const WsParams& params, const WsBarriers& at) {
  const ConvParams& conv = params.conv;
  const auto* const weights = static_cast<const unsigned char*>(conv.weights) +
                              int64_t{BlockY()} * params.units * kVariant.unit_bytes();
  const auto copy_weights = [&](int unit, uint32_t to, uint32_t barrier) {
    CopyBulk(to, weights + int64_t{unit} * kVariant.unit_bytes(), kVariant.unit_bytes(), barrier);
  };
  if constexpr (!kVariant.together) {
    for (int unit = 0; unit < params.units; ++unit) {
      const uint32_t barrier = at.weights + unit * 8;
      ArriveExpecting(barrier, kVariant.unit_bytes());
      copy_weights(unit, unit * kVariant.unit_bytes(), barrier);
    }
  }
  Patience patience;
  WsRing ring;
#pragma unroll 1
  for (int tile = BlockX(); tile < params.grid.count; tile += GridX()) {
    const BlockPlace place = PlaceOf(params.grid, tile);
    const int x = place.x + conv.shape.offset - conv.src.region.x;
    const int y = place.y + conv.shape.offset - conv.src.region.y;
#pragma unroll 1
    for (int unit = 0; unit < params.units; ++unit) {
      const uint32_t full = at.full + ring.stage * 8;
      const uint32_t stage = kVariant.stages_at(params.units) + ring.stage * kVariant.stage_bytes();
      WaitForPhase(at.empty + ring.stage * 8, ring.phase ^ 1, patience);
      if (patience.IsUsedUp()) return;  // the stage may be in use: others must not take it for full
      ArriveExpecting(full, kVariant.box_bytes() + (kVariant.together ? kVariant.unit_bytes() : 0));
      LoadBox(stage, params.src, x * kPlaneChannels, y, unit * kStepPlanes, place.tile, full);
      if constexpr (kVariant.together) {
        copy_weights(unit, stage + kVariant.stage_bytes() - kVariant.unit_bytes(), full);
      }
      ring.Skip(1, params.stages);
    }
  }
}

// The products of a unit.
template <WsVariant kVariant>
UPSCALED_DEVICE void WsMultiplyUnit(uint32_t weights, uint32_t pixels, bool first,
                                    float (&sums)[kVariant.sums()]) {
  const uint64_t a =
      MakeOperand(SharedState(weights), kVariant.weight_rows() * kPixelBytes, 8 * kPixelBytes);
  const uint64_t b = MakeOperand(SharedState(pixels), kVariant.plane_bytes(),
                                 kVariant.pixels * kVariant.box_width() * kPixelBytes);
  BeginProducts();
#pragma unroll
  for (int row = 0; row < kVariant.input_rows(); ++row) {
#pragma unroll
    for (int tap_x = 0; tap_x < kVariant.taps(); ++tap_x) {
      // An operand's address counts in 16 bytes.
      const uint32_t weight = kVariant.WeightAddress(row, tap_x, 0, 0);
      const uint32_t pixel = (row * kVariant.box_width() + tap_x) * kPixelBytes;
      MultiplyGroup(sums, a + weight / 16, b + pixel / 16, !first || row + tap_x > 0);
    }
  }
  CommitProducts();
}

// A warp's part of a tile: 16 of the product's rows.
template <WsVariant kVariant>
struct WsStores {
  static constexpr bool kEnlarged = kVariant.result == WsResult::kEnlarged;

  int group, part, parity;  // parity: of the rows of pixels, if two warps share the staging
  int row, plane;           // the result's rows of pixels, and plane, that the part begins with
  uint32_t staging;
  bool leads;  // the thread that has the engine store

  UPSCALED_DEVICE WsStores(const WsParams& params, int in_group, int warp)
      : group(in_group),
        part(kVariant.warps_pair() ? warp % 2 : warp),
        parity(kVariant.warps_pair() ? warp / 2 : 0),
        row(kEnlarged ? BlockY() / kVariant.PlaneBlocks(params.conv.shape) : 0),
        plane(kEnlarged ? BlockY() % kVariant.PlaneBlocks(params.conv.shape) *
                                  WsVariant::kEnlargedPlanes +
                              warp
                        : (BlockY() * kVariant.columns() + part * 16) / kPlaneChannels),
        staging(kVariant.weight_bytes(params.units) + group * kVariant.group_staging() +
                part * kVariant.warp_staging()),
        leads(ThreadIndex() % kWarpThreads == 0 && parity == 0) {}

  // Meets the warps of the same staging.
  UPSCALED_DEVICE void Sync() const {
    if constexpr (kVariant.warps_pair()) {
      SyncWarps(1 + group * 2 + part, 2 * kWarpThreads);
    } else {
      SyncWarp();
    }
  }
  UPSCALED_DEVICE int FirstX(const BlockPlace& place) const {
    return place.x + (kVariant.together ? group * 8 : 0);
  }
  // Coordinates of the result's boxes.
  UPSCALED_DEVICE int BoxX(const WsParams& params, const BlockPlace& place) const {
    return (FirstX(place) * (kEnlarged ? 2 : 1) - params.conv.dst.region.x) * kPlaneChannels;
  }
  UPSCALED_DEVICE int BoxY(const WsParams& params, const BlockPlace& place) const {
    const int first_y = params.results[row].first_y;
    return kEnlarged ? (place.y * 2 + row - first_y) / 2 : place.y - first_y;
  }
  UPSCALED_DEVICE void StoreBoxes(const WsParams& params, const BlockPlace& place,
                                  int staged) const {
    FenceForProducts();
    Sync();
    if (leads) {
      StoreBox(params.results[row].dst, BoxX(params, place), BoxY(params, place), plane + staged,
               place.tile, staging);
    }
  }
  UPSCALED_DEVICE uint32_t residual_barrier(const WsBarriers& at) const {
    return at.residual + (group * 4 + part) * 8;
  }
  // Brings the residual to the staging, long before it is needed. Nothing after giving up: it could
  // come on top of NaN.
  UPSCALED_DEVICE void LoadResidual(const WsParams& params, const WsBarriers& at,
                                    const BlockPlace& place, const Patience& patience) const {
    if (!leads || patience.IsUsedUp()) return;
    WaitStoresRead();
    ArriveExpecting(residual_barrier(at), kVariant.warp_staging());
    LoadBox(staging, params.results[row].residual, BoxX(params, place), BoxY(params, place), plane,
            place.tile, residual_barrier(at));
  }
  // Adds staged planes to a global pooling's sums, 4 rows of 8 pixels at a time.
  UPSCALED_DEVICE void AddSums(const WsParams& params, const BlockPlace& place, int staged) const {
    constexpr int kRows = 4, kRowBytes = 8 * kPixelBytes;
    const PooledSums& pooled = params.conv.sums;
    for (int i = 0; i < kVariant.staged_planes; ++i) {
      WarpSums own;
#pragma unroll 1
      for (int y = parity * kRows; y < kVariant.height();
           y += kRows * (kVariant.warps_pair() ? 2 : 1)) {
        own.AddPassed(staging + i * kVariant.staged_plane_bytes() + y * kRowBytes, [&](int pixel) {
          const int of_tile = y + pixel / 8;
          return of_tile < kVariant.height() &&
                 IsInside(pooled.part, FirstX(place) + pixel % 8, place.y + of_tile);
        });
      }
      own.MoveTo(pooled, place.tile, PlaneCount(params.conv.dst.channels), plane + staged + i);
    }
    Sync();  // no warp reads the staging any more
  }
};

// Activates a tile's sums and has the engine store them. stmatrix passes four matrices, each a row
// of 8 pixels of a plane: two rows of two planes, or four rows of one; enlarged, of every second
// pixel. Behind the last row it is stored once more.
template <WsVariant kVariant>
UPSCALED_DEVICE void WsStorePlanes(const WsParams& params, const BlockPlace& place,
                                   const WsStores<kVariant>& stores,
                                   const SlopedColumn (&columns)[2],
                                   const float (&sums)[kVariant.sums()]) {
  constexpr bool kEnlarged = kVariant.result == WsResult::kEnlarged;
  constexpr int kPlanes = kVariant.staged_planes, kRows = 4 / kPlanes;
  constexpr uint32_t kRowBytes = 8 * kPixelBytes,
                     kRowStep = (kEnlarged ? 2 : kVariant.pixels) * kRowBytes,
                     kPixelStep = (kEnlarged ? 2 : 1) * kPixelBytes,
                     kPlaneStep = kEnlarged ? kPixelBytes : kVariant.staged_plane_bytes();
  const int lane = ThreadIndex() % kWarpThreads, matrix = lane / 8;
  const int matrix_row = matrix / kPlanes;
  const uint32_t own = stores.staging + stores.parity * kRowBytes + lane % 8 * kPixelStep +
                       matrix % kPlanes * kPlaneStep;
#pragma unroll
  for (int first_plane = 0; first_plane < 2; first_plane += kPlanes) {
    if constexpr (!kVariant.adds) {
      if (stores.leads) WaitStoresRead();
      stores.Sync();
    }
#pragma unroll
    for (int row = 0; row < kVariant.rows; row += kRows) {
      const int last = kVariant.rows - 1 - row;
      const uint32_t address = own + (row + (matrix_row < last ? matrix_row : last)) * kRowStep;
      uint32_t residual[4] = {}, halves[4];
      if constexpr (kVariant.adds) LoadTransposed(residual, address);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int plane = first_plane + i % kPlanes;
        const int sum_row =
            row + i / kPlanes < kVariant.rows ? row + i / kPlanes : kVariant.rows - 1;
        const int at = 4 * sum_row + 2 * plane;
        float low = columns[plane].Apply(sums[at]), high = columns[plane].Apply(sums[at + 1]);
        if constexpr (kVariant.adds) {
          low = columns[plane].Add(low, LowHalf(residual[i]));
          high = columns[plane].Add(high, HighHalf(residual[i]));
        }
        halves[i] = PackHalves(low, high);
      }
      StoreTransposed(address, halves);
    }
    stores.StoreBoxes(params, place, first_plane);
    if constexpr (!kEnlarged) {
      if (params.conv.sums.data != nullptr) stores.AddSums(params, place, first_plane);
    }
  }
}

// The pixel a lane stores of each row of groups: lanes follow a row of the result.
struct ThinPixel {
  bool is_one;    // or there are more lanes than pixels
  uint32_t from;  // its columns in the staging of a row
  int x, y;       // from the result's pixel of the row's first group

  template <WsVariant kVariant>
  UPSCALED_DEVICE static ThinPixel Of(const ConvShape& shape, int warp) {
    const int lane = ThreadIndex() % kWarpThreads;
    const int stride = shape.out_stride, pixel_columns = shape.PixelColumns();
    const int lane_y = lane / (8 * stride), lane_x = lane - lane_y * 8 * stride;
    const int group = lane_x / stride;
    const int column = (lane_y * stride + lane_x - group * stride) * pixel_columns;
    const int row = warp * 16 + column;  // of the product
    const int pixel_y = row % kVariant.columns() / pixel_columns / stride;
    return {column < 16 && pixel_y < stride,
            static_cast<uint32_t>((group * WsVariant::kThinPitch + column) * sizeof(float)),
            lane_x - shape.crop, row / kVariant.columns() * stride + pixel_y - shape.crop};
  }
};

template <WsVariant kVariant>
UPSCALED_DEVICE void WsStoreThin(const WsParams& params, const BlockPlace& place,
                                 const WsStores<kVariant>& stores, const ThinPixel& pixel,
                                 const SlopedColumn (&columns)[2],
                                 const float (&sums)[kVariant.sums()]) {
  constexpr int kPitch = WsVariant::kThinPitch, kRows = kVariant.thin_rows();
  constexpr uint32_t kRowBytes = 8 * kPitch * sizeof(float);
  const int lane = ThreadIndex() % kWarpThreads;
  const uint32_t own = stores.staging + (lane % 4 * 2 * kPitch + lane / 4) * sizeof(float);
  const int stride = params.conv.shape.out_stride;
#pragma unroll
  for (int first = 0; first < kVariant.rows; first += kRows) {
    constexpr int kEnd = kVariant.rows;
    SyncWarp();  // the rows before have been read
#pragma unroll
    for (int row = first; row < first + kRows && row < kEnd; ++row) {
      float* const to = SharedAt<float>(own + (row - first) * kRowBytes);
      to[0] = columns[0].Apply(sums[4 * row]);
      to[kPitch] = columns[0].Apply(sums[4 * row + 1]);
      to[8] = columns[1].Apply(sums[4 * row + 2]);
      to[kPitch + 8] = columns[1].Apply(sums[4 * row + 3]);
    }
    SyncWarp();
    if (!pixel.is_one) continue;
#pragma unroll 1
    for (int row = first; row < first + kRows && row < kEnd; ++row) {
      float values[kPlaneChannels] = {};
      Load<kThinColumns>(
          SharedAt<const float>(stores.staging + (row - first) * kRowBytes + pixel.from), values);
      StorePixel<Half>(params.conv, 0, place.x * stride + pixel.x,
                       (place.y + row * kVariant.pixels) * stride + pixel.y, place.tile, values);
    }
  }
}

// 128 of the multiplying threads. A stage is given back when the next unit's products are issued.
template <WsVariant kVariant>
UPSCALED_DEVICE void WsMultiplyTiles(const WsParams& params, const WsBarriers& at, int group) {
  const int lane = ThreadIndex() % kWarpThreads, warp = OfWarp(ThreadIndex() / kWarpThreads % 4);
  const WsStores<kVariant> stores(params, group, warp);
  const ThinPixel pixel = ThinPixel::Of<kVariant>(params.conv.shape, warp);
  const auto column_at = [&](int row) {
    return SlopedColumn(params.conv,
                        kVariant.LayerColumn(params.conv.shape, BlockY(), warp * 16 + row));
  };
  SlopedColumn columns[2] = {column_at(SumGroup(lane, 0)), column_at(SumGroup(lane, 1))};
  // Nothing after giving up: others would take an unread stage for free, and store no NaN.
  Patience patience;
  const auto arrive = [&](uint32_t barrier) {
    SyncWarp();
    if (lane == 0 && !patience.IsUsedUp()) Arrive(barrier);
  };
  constexpr bool kTurns = !kVariant.together;
  constexpr uint32_t kStrip = kVariant.together ? 8 * kPixelBytes : 0;
  const int step = (kTurns ? 2 : 1) * GridX();
  WsRing ring;
  if (kTurns && group == 1) ring.Skip(params.units, params.stages);
  int turn = group ^ 1;  // the parity of the group's next turn
  int residual_phase = 0;
  bool has_weights = kVariant.together;
  float sums[kVariant.sums()];
#pragma unroll 1
  for (int tile = BlockX() + (kTurns ? group * GridX() : 0); tile < params.grid.count;
       tile += step) {
    const BlockPlace place = PlaceOf(params.grid, tile);
    if constexpr (kVariant.adds) stores.LoadResidual(params, at, place, patience);
    if constexpr (kTurns) {
      WaitForPhase(at.turn + group * 8, turn, patience);
      turn ^= 1;
    }
    int previous = -1;  // stage of the unit that is being multiplied
#pragma unroll 1
    for (int unit = 0; unit < params.units; ++unit) {
      if (!has_weights) WaitForPhase(at.weights + unit * 8, 0, patience);
      WaitForPhase(at.full + ring.stage * 8, ring.phase, patience);
      const uint32_t stage = kVariant.stages_at(params.units) + ring.stage * kVariant.stage_bytes();
      const uint32_t weights = kVariant.together
                                   ? stage + kVariant.stage_bytes() - kVariant.unit_bytes()
                                   : unit * kVariant.unit_bytes();
      WsMultiplyUnit<kVariant>(weights, stage + group * kStrip, unit == 0, sums);
      if (previous >= 0) {
        WaitProducts<1>();
        arrive(at.empty + previous * 8);
      }
      previous = ring.stage;
      ring.Skip(1, params.stages);
    }
    has_weights = true;
    if constexpr (kTurns) arrive(at.turn + (group ^ 1) * 8);
    WaitProducts<0>();
    HoldSums(sums);
    arrive(at.empty + previous * 8);
    if constexpr (kTurns) ring.Skip(params.units, params.stages);
    if constexpr (kVariant.adds) {
      WaitForPhase(stores.residual_barrier(at), residual_phase, patience);
      residual_phase ^= 1;
    }
    if (patience.IsUsedUp()) {
      MarkGivenUp(params.conv);
      columns[0].bias = columns[1].bias = std::numeric_limits<float>::quiet_NaN();
    }
    if constexpr (kVariant.result == WsResult::kThin) {
      WsStoreThin<kVariant>(params, place, stores, pixel, columns, sums);
    } else {
      WsStorePlanes<kVariant>(params, place, stores, columns, sums);
    }
  }
  if (stores.leads) WaitStores();
}

template <WsVariant kVariant>
UPSCALED_DEVICE void RunConv3x3Ws(const WsParams& params) {
  if constexpr (kVariant.result == WsResult::kEnlarged) {  // a region of one row of pixels
    if (params.results[BlockY() / kVariant.PlaneBlocks(params.conv.shape)].empty) return;
  }
  const WsBarriers at(kVariant, params);
  if (ThreadIndex() == 0) {
    for (int stage = 0; stage < params.stages; ++stage) {
      InitBarrier(at.full + stage * 8, 1);
      InitBarrier(at.empty + stage * 8, kVariant.together ? 8 : 4);
    }
    for (int unit = 0; unit < WsVariant::kMaxUnits; ++unit) InitBarrier(at.weights + unit * 8, 1);
    for (int group = 0; group < 2; ++group) InitBarrier(at.turn + group * 8, 4);
    for (int warp = 0; warp < 8; ++warp) InitBarrier(at.residual + warp * 8, 1);
    FenceBarriers();
  }
  SyncThreads();
  const int group = OfWarp(ThreadIndex() / 128);
  if (group == 0) {
    ReduceRegisters<24>();
    if (ThreadIndex() == 0) WsCopyUnits<kVariant>(params, at);
  } else {
    RaiseRegisters<240>();
    WsMultiplyTiles<kVariant>(params, at, group - 1);
  }
}

}  // namespace upscaled::cuda
