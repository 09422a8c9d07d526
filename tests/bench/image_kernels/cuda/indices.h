// The work of each thread, and its place in shared memory: arithmetic shared by kernels and tests.
#pragma once

#include <cstdint>

#include "engine/backends/cuda/kernels/portable.h"
#include "engine/base/geometry.h"

namespace upscaled::cuda {

UPSCALED_HD constexpr int BlockCount(int64_t count, int each) {
  return static_cast<int>((count + each - 1) / each);
}

// --- transpose.cu: a block of kTile threads by `thread_rows` moves a tile of kTile x kTile. ------

inline constexpr int kTile = 32;
inline constexpr int kBanks = 32;  // 4-byte words of shared memory that a warp reaches at once

// Where the tile keeps a value. With a pitch of kTile + 1 the values of a column lie in different
// banks; with one of kTile in the same.
UPSCALED_HD constexpr int TileIndex(int pitch, int row, int column) { return row * pitch + column; }

// The source's pixel for thread (x, y) of a block in its i-th turn; turns are over when TileRow
// reaches kTile.
UPSCALED_HD constexpr int TileRow(int thread_y, int thread_rows, int turn) {
  return thread_y + turn * thread_rows;
}

// --- bilateral.cu: a block computes kColumns x kRows pixels from a halo of radius more. ---------

struct BilateralTile {
  int thread_columns, thread_rows;
  int pixels_per_thread;  // in a row, thread_columns apart: neighbouring threads have neighbours

  UPSCALED_HD constexpr int columns() const { return thread_columns * pixels_per_thread; }
  UPSCALED_HD constexpr int Pixel(int thread_x, int i) const {
    return thread_x + i * thread_columns;
  }
  UPSCALED_HD constexpr int HaloColumns(int radius) const { return columns() + 2 * radius; }
  UPSCALED_HD constexpr int HaloRows(int radius) const { return thread_rows + 2 * radius; }
  // A halo's pixel is one word.
  UPSCALED_HD constexpr int HaloIndex(int radius, int row, int column) const {
    return row * HaloColumns(radius) + column;
  }
};

inline constexpr BilateralTile kBilateralShared = {16, 16, 1};
inline constexpr BilateralTile kBilateralSeveral = {32, 8, 4};

// --- reduce.cu and quality.cu: sums of runs, then of the runs in order. --------------------------

inline constexpr int kReduceThreads = 128;
inline constexpr int kRunRows = 64;      // per column
inline constexpr int kErrorRun = 2048;   // values of a plane
inline constexpr int kSsimColumns = 32;  // windows that a block compares
inline constexpr int kSsimRows = 8;

}  // namespace upscaled::cuda
