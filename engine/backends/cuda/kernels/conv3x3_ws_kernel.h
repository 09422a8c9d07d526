// 3x3 convolution with stride 1 on the tensor cores of sm_90a (wgmma), halves in and out, sums in
// fp32: as conv3x3_wgmma_kernel.h, warp specialised. The same products in the same order: the same
// bits.
//
// A persistent block has three groups of 128 threads. One thread of the first has the copy engine
// bring units of 16 channels of a tile, with its halo, into a ring of stages. Two groups multiply
// (m64nNk16): a product's 64 rows are columns, its N = 8 * rows columns groups, 8 in a row of
// pixels. No thread tests a coordinate: the engine pads, and cuts off (tensor_map.h).
//
// Ping-pong: each group has a tile of its own, 8 pixels wide, and takes turns: while one stores,
// the other multiplies. Together: both take halves of one tile, 16 pixels wide, and share weights
// that come with each unit; for layers whose weights do not fit.
//
// Pairs, for up to 32 columns: a group is two pixels, one above the other, so that 2 x 32 columns
// fill the rows. 4 rows of inputs by 3 taps are 12 products for the 18 halves that are needed. The
// weights lie as [0, W(2), W(1), W(0), 0], 32 columns each: the operand of input row r begins at
// block 3 - r, with W(r) for the upper pixel and W(r - 1) for the lower. A zero times NaN is NaN,
// which so reaches both pixels of a pair. Plans round regions outward to whole pairs
// (Program::block_px): a pixel has the same partner, with all that it reads, in every tile.
//
// Waits give up in the end (Patience), and the kernel then stores NaN: it never hangs, and a tile
// that holds NaN is computed again by other kernels.
#pragma once

#include <cstdint>
#include <limits>

#include "engine/backends/cuda/kernels/conv3x3_tile.h"
#include "engine/backends/cuda/kernels/conv_tiles.h"
#include "engine/backends/cuda/kernels/device.h"
#include "engine/backends/cuda/kernels/half_epilogue.h"
#include "engine/backends/cuda/kernels/mma_tile.h"
#include "engine/backends/cuda/kernels/tensor_map.h"
#include "engine/backends/cuda/kernels/wgmma_operand.h"
#include "engine/backends/cuda/kernels/ws_variant.h"

namespace upscaled::cuda {

// One launch.
struct WsParams {
  TensorMap src, dst, residual;
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
  constexpr int kRows = kVariant.pairs ? 4 : 3;  // of inputs
  const uint64_t a =
      MakeOperand(SharedState(weights), kVariant.weight_rows() * kPixelBytes, 8 * kPixelBytes);
  const uint64_t b = MakeOperand(SharedState(pixels), kVariant.plane_bytes(),
                                 (kVariant.pairs ? 2 : 1) * kVariant.box_width() * kPixelBytes);
  BeginProducts();
#pragma unroll
  for (int row = 0; row < kRows; ++row) {
#pragma unroll
    for (int tap_x = 0; tap_x < 3; ++tap_x) {
      // An operand's address counts in 16 bytes. Of pairs, block 3 - row begins where tap_y = row
      // lies.
      const uint32_t weight = kVariant.WeightAddress(row, tap_x, 0, 0);
      const uint32_t pixel = (row * kVariant.box_width() + tap_x) * kPixelBytes;
      MultiplyGroup(sums, a + weight / 16, b + pixel / 16, !first || row + tap_x > 0);
    }
  }
  CommitProducts();
}

// A warp's part of a tile: 16 columns. With pairs, two warps have the same columns of every second
// row of pixels, and share the staging.
template <WsVariant kVariant>
struct WsStores {
  int group, part, parity;  // parity: of the rows
  uint32_t staging;
  bool leads;  // the thread that has the engine store

  UPSCALED_DEVICE WsStores(const WsParams& params, int in_group, int warp)
      : group(in_group),
        part(kVariant.pairs ? warp % 2 : warp),
        parity(kVariant.pairs ? warp / 2 : 0),
        staging(kVariant.weight_bytes(params.units) + group * kVariant.group_staging() +
                part * kVariant.warp_staging()),
        leads(ThreadIndex() % kWarpThreads == 0 && parity == 0) {}

  UPSCALED_DEVICE int first_column() const { return BlockY() * kVariant.columns() + part * 16; }
  // Those who share the staging.
  UPSCALED_DEVICE void Sync() const {
    if constexpr (kVariant.pairs) {
      SyncWarps(1 + group * 2 + part, 2 * kWarpThreads);
    } else {
      SyncWarp();
    }
  }
  UPSCALED_DEVICE int BoxX(const WsParams& params, const BlockPlace& place) const {
    return (place.x + (kVariant.together ? group * 8 : 0) - params.conv.dst.region.x) *
           kPlaneChannels;
  }
  UPSCALED_DEVICE void StoreBoxes(const WsParams& params, const BlockPlace& place,
                                  int plane) const {
    FenceForProducts();
    Sync();
    if (leads) {
      StoreBox(params.dst, BoxX(params, place), place.y - params.conv.dst.region.y,
               first_column() / kPlaneChannels + plane, place.tile, staging);
    }
  }
  UPSCALED_DEVICE uint32_t residual_barrier(const WsBarriers& at) const {
    return at.residual + (group * 4 + part) * 8;
  }
  // Brings the residual to the staging, long before it is needed.
  UPSCALED_DEVICE void LoadResidual(const WsParams& params, const WsBarriers& at,
                                    const BlockPlace& place) const {
    if (!leads) return;
    WaitStoresRead();
    ArriveExpecting(residual_barrier(at), kVariant.warp_staging());
    LoadBox(staging, params.residual, BoxX(params, place), place.y - params.conv.dst.region.y,
            first_column() / kPlaneChannels, place.tile, residual_barrier(at));
  }
};

// Activates a tile's sums and has the engine store them. stmatrix passes four matrices, each a row
// of 8 pixels of a plane: two rows of two planes, or four rows of one. Behind the last row it is
// stored once more.
template <WsVariant kVariant>
UPSCALED_DEVICE void WsStoreTile(const WsParams& params, const BlockPlace& place,
                                 const WsStores<kVariant>& stores, const SlopedColumn (&columns)[2],
                                 const float (&sums)[kVariant.sums()]) {
  constexpr int kPlanes = kVariant.staged_planes, kRows = 4 / kPlanes;
  constexpr uint32_t kRowBytes = 8 * kPixelBytes, kRowStep = (kVariant.pairs ? 2 : 1) * kRowBytes;
  const int lane = ThreadIndex() % kWarpThreads, matrix = lane / 8;
  const int matrix_row = matrix / kPlanes;
  const uint32_t own = stores.staging + stores.parity * kRowBytes + lane % 8 * kPixelBytes +
                       matrix % kPlanes * kVariant.staged_plane_bytes();
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
          low += LowHalf(residual[i]);
          high += HighHalf(residual[i]);
        }
        halves[i] = PackHalves(low, high);
      }
      StoreTransposed(address, halves);
    }
    stores.StoreBoxes(params, place, first_plane);
  }
}

// 128 of the threads that multiply. A stage is given back when the next unit's products are issued.
template <WsVariant kVariant>
UPSCALED_DEVICE void WsMultiplyTiles(const WsParams& params, const WsBarriers& at, int group) {
  const int lane = ThreadIndex() % kWarpThreads;
  const WsStores<kVariant> stores(params, group, OfWarp(ThreadIndex() / kWarpThreads % 4));
  const int column = stores.first_column() + SumGroup(lane, 0);
  SlopedColumn columns[2] = {{params.conv, column}, {params.conv, column + kPlaneChannels}};
  const auto arrive = [&](uint32_t barrier) {
    SyncWarp();
    if (lane == 0) Arrive(barrier);
  };
  constexpr bool kTurns = !kVariant.together;
  constexpr uint32_t kStrip = kVariant.together ? 8 * kPixelBytes : 0;
  const int step = (kTurns ? 2 : 1) * GridX();
  WsRing ring;
  if (kTurns && group == 1) ring.Skip(params.units, params.stages);
  int turn = group ^ 1;  // the parity of the group's next turn
  int residual_phase = 0;
  bool has_weights = kVariant.together;
  Patience patience;
  float sums[kVariant.sums()];
#pragma unroll 1
  for (int tile = BlockX() + (kTurns ? group * GridX() : 0); tile < params.grid.count;
       tile += step) {
    const BlockPlace place = PlaceOf(params.grid, tile);
    if constexpr (kVariant.adds) stores.LoadResidual(params, at, place);
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
    if (patience.tries <= 0) {
      columns[0].bias = columns[1].bias = std::numeric_limits<float>::quiet_NaN();
    }
    WsStoreTile<kVariant>(params, place, stores, columns, sums);
  }
  if (stores.leads) WaitStores();
}

template <WsVariant kVariant>
UPSCALED_DEVICE void RunConv3x3Ws(const WsParams& params) {
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
