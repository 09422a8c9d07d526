// Transposition: blocks of 32 x 32 floats, 4 KB on either side: every cache line of a block is used
// whole before it leaves the L1; inside, 4 x 4 in registers. Statistics: lanes are values of a row
// or columns side by side, and NaNs are masked out.
#include "tests/bench/image_kernels/cpu/image_matrix.h"

#include <algorithm>
#include <cmath>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/bench/image_kernels/cpu/image_matrix.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace upscaled::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void Transpose4x4(const float* src, size_t src_stride, float* dst, size_t dst_stride) {
#if HWY_TARGET == HWY_SCALAR
  for (int y = 0; y < 4; ++y) {
    for (int x = 0; x < 4; ++x) dst[x * dst_stride + y] = src[y * src_stride + x];
  }
#else
  const hn::FixedTag<float, 4> d;
  const hn::FixedTag<double, 2> pairs;
  const auto r0 = hn::LoadU(d, src), r1 = hn::LoadU(d, src + src_stride);
  const auto r2 = hn::LoadU(d, src + 2 * src_stride), r3 = hn::LoadU(d, src + 3 * src_stride);
  const auto low01 = hn::BitCast(pairs, hn::InterleaveLower(d, r0, r1));
  const auto low23 = hn::BitCast(pairs, hn::InterleaveLower(d, r2, r3));
  const auto high01 = hn::BitCast(pairs, hn::InterleaveUpper(d, r0, r1));
  const auto high23 = hn::BitCast(pairs, hn::InterleaveUpper(d, r2, r3));
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, low01, low23)), d, dst);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, low01, low23)), d, dst + dst_stride);
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, high01, high23)), d, dst + 2 * dst_stride);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, high01, high23)), d, dst + 3 * dst_stride);
#endif
}

using Tag = hn::CappedTag<float, 16>;
using V = hn::Vec<Tag>;

struct Stats {
  V sum, min, max, non_finite;
};

HWY_INLINE Stats Nothing() {
  const Tag d;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  return {hn::Zero(d), hn::Set(d, kInfinity), hn::Set(d, -kInfinity), hn::Zero(d)};
}

HWY_INLINE void Take(V value, Stats& stats) {
  const Tag d;
  const auto finite = hn::Lt(hn::Abs(value), hn::Set(d, std::numeric_limits<float>::infinity()));
  stats.sum = hn::Add(stats.sum, hn::IfThenElseZero(finite, value));
  stats.min = hn::IfThenElse(finite, hn::Min(stats.min, value), stats.min);
  stats.max = hn::IfThenElse(finite, hn::Max(stats.max, value), stats.max);
  stats.non_finite = hn::Add(stats.non_finite, hn::IfThenZeroElse(finite, hn::Set(d, 1.0f)));
}

// The lanes one by one.
struct Lanes {
  HWY_ALIGN float sum[16], min[16], max[16], non_finite[16];

  explicit Lanes(const Stats& stats) {
    const Tag d;
    hn::Store(stats.sum, d, sum);
    hn::Store(stats.min, d, min);
    hn::Store(stats.max, d, max);
    hn::Store(stats.non_finite, d, non_finite);
  }
  LineStats At(size_t i) const { return {sum[i], min[i], max[i], non_finite[i]}; }
};

// How many of the first values fill whole vectors.
int WholeVectors(int count) {
  const int lanes = static_cast<int>(hn::Lanes(Tag()));
  return count / lanes * lanes;
}

// Statistics of the first values of a row, a multiple of the lanes, lane by lane.
void RowLanes(const float* row, int count, LineStats* lanes) {
  const Tag d;
  Stats stats = Nothing();
  for (int x = 0; x < count; x += static_cast<int>(hn::Lanes(d))) {
    Take(hn::LoadU(d, row + x), stats);
  }
  const Lanes all(stats);
  for (size_t i = 0; i < hn::Lanes(d); ++i) lanes[i] = all.At(i);
}

// Statistics of the first columns, a multiple of the lanes.
void ColumnLanes(const float* src, size_t stride, int rows, int columns, LineStats* stats_of) {
  const Tag d;
  for (int x = 0; x < columns; x += static_cast<int>(hn::Lanes(d))) {
    Stats stats = Nothing();
    for (int y = 0; y < rows; ++y) Take(hn::LoadU(d, src + y * stride + x), stats);
    const Lanes all(stats);
    for (size_t i = 0; i < hn::Lanes(d); ++i) stats_of[x + i] = all.At(i);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace upscaled::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace upscaled::cpu {
namespace {

HWY_EXPORT(Transpose4x4);
HWY_EXPORT(WholeVectors);
HWY_EXPORT(RowLanes);
HWY_EXPORT(ColumnLanes);

constexpr int kBlock = 32;
constexpr size_t kMaxLanes = 16;
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr LineStats kNothing = {0, kInfinity, -kInfinity, 0};

void Take(float value, LineStats& stats) {
  if (!std::isfinite(value)) {
    ++stats.non_finite;
    return;
  }
  stats.sum += value;
  stats.min = std::min(stats.min, value);
  stats.max = std::max(stats.max, value);
}

void Merge(const LineStats& other, LineStats& stats) {
  stats.sum += other.sum;
  stats.min = std::min(stats.min, other.min);
  stats.max = std::max(stats.max, other.max);
  stats.non_finite += other.non_finite;
}

// Calls `block(x, y, width, height)` for every block of the rows.
template <typename Function>
void ForBlocks(Size size, int begin, int end, Function block) {
  for (int y = begin; y < end; y += kBlock) {
    for (int x = 0; x < size.width; x += kBlock) {
      block(x, y, std::min(kBlock, size.width - x), std::min(kBlock, end - y));
    }
  }
}

}  // namespace

void TransposeBlocks(Size size, int begin, int end, const float* src, float* dst) {
  const size_t width = size.width, height = size.height;
  ForBlocks(size, begin, end, [&](int left, int top, int columns, int rows) {
    for (int x = left; x < left + columns; ++x) {
      for (int y = top; y < top + rows; ++y) dst[x * height + y] = src[y * width + x];
    }
  });
}

void TransposeVectors(Size size, int begin, int end, const float* src, float* dst) {
  const size_t width = size.width, height = size.height;
  const auto transpose = HWY_DYNAMIC_DISPATCH(Transpose4x4);
  ForBlocks(size, begin, end, [&](int left, int top, int columns, int rows) {
    const int whole_columns = columns / 4 * 4, whole_rows = rows / 4 * 4;
    for (int x = 0; x < columns; ++x) {
      // The rest of a division by four lies at the right and at the bottom.
      for (int y = x < whole_columns ? whole_rows : 0; y < rows; ++y) {
        dst[(left + x) * height + top + y] = src[(top + y) * width + left + x];
      }
    }
    for (int x = left; x < left + whole_columns; x += 4) {
      for (int y = top; y < top + whole_rows; y += 4) {
        transpose(src + y * width + x, width, dst + x * height + y, height);
      }
    }
  });
}

void RowStatsVectors(Size size, int begin, int end, const float* src, LineStats* stats) {
  LineStats lanes[kMaxLanes];
  const int whole = HWY_DYNAMIC_DISPATCH(WholeVectors)(size.width);
  for (int y = begin; y < end; ++y) {
    const float* row = src + static_cast<size_t>(y) * size.width;
    std::fill_n(lanes, kMaxLanes, kNothing);
    HWY_DYNAMIC_DISPATCH(RowLanes)(row, whole, lanes);
    LineStats& line = stats[y] = kNothing;
    for (const LineStats& lane : lanes) Merge(lane, line);
    for (int x = whole; x < size.width; ++x) Take(row[x], line);
  }
}

void ColumnStatsRun(Size size, int run, const float* src, LineStats* stats) {
  std::fill_n(stats, size.width, kNothing);
  for (int y = run * kRunRows; y < std::min(size.height, (run + 1) * kRunRows); ++y) {
    const float* row = src + static_cast<size_t>(y) * size.width;
    for (int x = 0; x < size.width; ++x) Take(row[x], stats[x]);
  }
}

void ColumnStatsRunVectors(Size size, int run, const float* src, LineStats* stats) {
  const size_t width = size.width;
  const float* first = src + run * kRunRows * width;
  const int rows = std::min(size.height - run * kRunRows, kRunRows);
  const int whole = HWY_DYNAMIC_DISPATCH(WholeVectors)(size.width);
  HWY_DYNAMIC_DISPATCH(ColumnLanes)(first, width, rows, whole, stats);
  for (int x = whole; x < size.width; ++x) {
    stats[x] = kNothing;
    for (int y = 0; y < rows; ++y) Take(first[y * width + x], stats[x]);
  }
}

void MergeRuns(Size size, const LineStats* runs, LineStats* stats) {
  std::copy_n(runs, size.width, stats);
  for (int run = 1; run * kRunRows < size.height; ++run) {
    const LineStats* others = runs + static_cast<size_t>(run) * size.width;
    for (int x = 0; x < size.width; ++x) Merge(others[x], stats[x]);
  }
}

}  // namespace upscaled::cpu
#endif  // HWY_ONCE
