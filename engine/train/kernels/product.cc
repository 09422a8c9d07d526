// A register tile is R rows x V vectors of columns; each step along the depth loads V vectors of b
// and broadcasts R values of a from memory. AVX-512 (32 registers): 9 x 3, 14 x 2 or 16 x 1; AVX2
// and SSE4 (16 registers): 4 x 3, 6 x 2 or 12 x 1. Rows and columns are divided evenly among tiles.
#include "engine/train/kernels/product.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/train/kernels/product.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include <array>
#include <utility>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace upscaled::train {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::CappedTag<float, 16>;
using Vec = hn::Vec<Tag>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(Tag()));
constexpr int kMaxVectors = 3;
#if HWY_TARGET <= HWY_AVX3
constexpr int kMaxRows[] = {16, 14, 9};  // by vectors, less one
#else
constexpr int kMaxRows[] = {12, 6, 4};
#endif

// kUnitRow: rows of a are adjacent values, otherwise the depth is.
template <bool kUnitRow, int kRows, int kVectors>
HWY_NOINLINE void Tile(const ProductArgs<float>& args, int row, int column) {
  const Tag d;
  float* HWY_RESTRICT c = args.c + row * args.c_stride + column;
  Vec sum[kRows][kVectors];
  HWY_UNROLL(16)
  for (int r = 0; r < kRows; ++r) {
    HWY_UNROLL(3)
    for (int j = 0; j < kVectors; ++j) {
      sum[r][j] = args.add ? hn::Load(d, c + r * args.c_stride + j * kLanes) : hn::Zero(d);
    }
  }
  // Three rows share a pointer: an address is one, plus none, one or two strides.
  const float* a[(kRows + 2) / 3];
  const size_t stride = kUnitRow ? 1 : args.a_row, step = kUnitRow ? args.a_depth : 1;
  for (int i = 0; i < (kRows + 2) / 3; ++i) a[i] = args.a + (row + 3 * i) * stride;
  const float* HWY_RESTRICT b = args.b + column;
  for (int k = 0; k < args.depth; ++k, b += args.b_stride) {
    Vec w[kVectors];
    HWY_UNROLL(3)
    for (int j = 0; j < kVectors; ++j) w[j] = hn::Load(d, b + j * kLanes);
    HWY_UNROLL(16)
    for (int r = 0; r < kRows; ++r) {
      const Vec x = hn::Set(d, kUnitRow ? a[0][r] : a[r / 3][r % 3 * stride]);
      HWY_UNROLL(3)
      for (int j = 0; j < kVectors; ++j) sum[r][j] = hn::MulAdd(x, w[j], sum[r][j]);
    }
    HWY_UNROLL(6)
    for (int i = 0; i < (kUnitRow ? 1 : (kRows + 2) / 3); ++i) a[i] += step;
  }
  HWY_UNROLL(16)
  for (int r = 0; r < kRows; ++r) {
    HWY_UNROLL(3)
    for (int j = 0; j < kVectors; ++j) {
      hn::Store(sum[r][j], d, c + r * args.c_stride + j * kLanes);
    }
  }
}

using TileFunction = void (*)(const ProductArgs<float>& args, int row, int column);

// The tiles of 1, 2, ... rows.
template <bool kUnitRow, int kVectors, int... kRows>
constexpr std::array<TileFunction, sizeof...(kRows)> TilesOf(std::integer_sequence<int, kRows...>) {
  return {&Tile<kUnitRow, kRows + 1, kVectors>...};
}
template <bool kUnitRow, int kVectors>
constexpr auto kTiles =
    TilesOf<kUnitRow, kVectors>(std::make_integer_sequence<int, kMaxRows[kVectors - 1]>());

template <bool kUnitRow, int kVectors>
void Columns(const ProductArgs<float>& args, int column) {
  constexpr int kMax = kMaxRows[kVectors - 1];
  int groups = (args.rows + kMax - 1) / kMax;
  for (int row = 0; row < args.rows; --groups) {
    const int rows = (args.rows - row + groups - 1) / groups;
    kTiles<kUnitRow, kVectors>[rows - 1](args, row, column);
    row += rows;
  }
}

template <bool kUnitRow>
void MultiplyTiles(const ProductArgs<float>& args) {
  constexpr void (*kColumns[])(const ProductArgs<float>&, int) = {
      &Columns<kUnitRow, 1>, &Columns<kUnitRow, 2>, &Columns<kUnitRow, 3>};
  const int all = args.columns / kLanes;
  int groups = (all + kMaxVectors - 1) / kMaxVectors;
  for (int vector = 0; vector < all; --groups) {
    const int vectors = (all - vector + groups - 1) / groups;
    kColumns[vectors - 1](args, vector * kLanes);
    vector += vectors;
  }
}

void Multiply(const ProductArgs<float>& args) {
  args.a_row == 1 ? MultiplyTiles<true>(args) : MultiplyTiles<false>(args);
}

}  // namespace HWY_NAMESPACE
}  // namespace upscaled::train
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "engine/backends/cpu/kernels/isa_dispatch.h"

namespace upscaled::train {
namespace {

using cpu::Isa;

void MultiplyDoubles(const ProductArgs<double>& args) {
  for (int r = 0; r < args.rows; ++r) {
    double* c = args.c + r * args.c_stride;
    if (!args.add) {
      for (int n = 0; n < args.columns; ++n) c[n] = 0;
    }
    for (int k = 0; k < args.depth; ++k) {
      const double a = args.a[r * args.a_row + k * args.a_depth];
      const double* b = args.b + k * args.b_stride;
      for (int n = 0; n < args.columns; ++n) c[n] += a * b[n];
    }
  }
}

}  // namespace

template <>
ProductFunction<float> ProductFor(Isa isa) {
  UPSCALED_RETURN_ADDRESS_FOR(isa, Multiply)
}

template <>
ProductFunction<double> ProductFor(Isa /*isa*/) {
  return &MultiplyDoubles;
}

}  // namespace upscaled::train
#endif  // HWY_ONCE
