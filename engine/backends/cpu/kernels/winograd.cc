// Data of one step, a row of blocks (W::kOutputs rows of the layer), for T blocks at a time:
//   V[point][plane][T][16]       transformed input
//   U[block of OB outputs][point][input channel][OB]   transformed weights, packed once
//   M[point][T][OB]              products, two of them
// V is computed once. Then, per block of OB output channels, each point is a small GEMM V x U -> M,
// and between its microkernel calls the *previous* block of channels leaves M through the output
// transform, so that the stores hide behind multiplications.
//
// The microkernel keeps P blocks x OV vectors of accumulators: 14 x 2 of AVX-512's 32 registers
// (28 + 2 weights + 1 broadcast), or 28 x 1 where two vectors would compute channels that do not
// exist; 6 x 2 of the 16 that AVX2 and SSE4 have. T = 28 (24) blocks: more do not fit V and M into
// L2 at 128 channels, fewer reload U too often; 14 for a single vector, which reads V just once,
// and for few channels on a small L2; 42 for weights larger than a large L2 (ChooseEven). Strides
// between points are an odd number of cache lines, else the transforms' accesses share few cache
// sets. The kernel prefetches the next U panel (L2), the next rows of V (L1) and the lines of M.
#include "engine/backends/cpu/kernels/winograd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/backends/cpu/kernels/winograd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include "engine/backends/cpu/kernels/epilogue-inl.h"
#include "engine/backends/cpu/kernels/winograd_transform-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace upscaled::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::CappedTag<float, kPlaneChannels>;
using Vec = hn::Vec<Tag>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(Tag()));

constexpr size_t OddCacheLines(size_t floats) {
  return floats / 16 % 2 == 0 ? floats + 16 : floats;
}

alignas(64) constexpr float kZeros[64] = {};

// m[tile][kVectors] = init + sum over k of v[tile][k] * u[k][kVectors] for kTiles tiles.
// v: [plane][kBlockTiles][16].
template <int kVectors, int kTiles, int kBlockTiles>
HWY_NOINLINE void Gemm(const float* HWY_RESTRICT v, int planes, const float* HWY_RESTRICT u,
                       const float* HWY_RESTRICT init, float* HWY_RESTRICT m, const float* next_u,
                       const float* next_v) {
  const Tag d;
  Vec sum[kTiles][kVectors];
  HWY_UNROLL(32)
  for (int t = 0; t < kTiles; ++t) {
    HWY_UNROLL(4)
    for (int j = 0; j < kVectors; ++j) sum[t][j] = hn::Load(d, init + j * kLanes);
  }
  constexpr int kStoredLines = kTiles * kVectors * kLanes / 16;
  for (int plane = 0; plane < planes; ++plane) {
    HWY_UNROLL(2)
    for (int k = 0; k < kPlaneChannels; ++k) {
      Vec w[kVectors];
      HWY_UNROLL(4)
      for (int j = 0; j < kVectors; ++j) w[j] = hn::Load(d, u + j * kLanes);
      u += kVectors * kLanes;
      __builtin_prefetch(next_u, 0, 2);
      next_u += 16;
      if (k < kTiles) __builtin_prefetch(next_v + k * 16, 0, 3);
      if (plane * 16 + k < kStoredLines) __builtin_prefetch(m + (plane * 16 + k) * 16, 1, 3);
      HWY_UNROLL(32)
      for (int t = 0; t < kTiles; ++t) {
        const Vec x = hn::Set(d, v[t * 16 + k]);
        HWY_UNROLL(4)
        for (int j = 0; j < kVectors; ++j) sum[t][j] = hn::MulAdd(x, w[j], sum[t][j]);
      }
    }
    v += kBlockTiles * 16;
    next_v += kBlockTiles * 16;
  }
  HWY_UNROLL(32)
  for (int t = 0; t < kTiles; ++t) {
    HWY_UNROLL(4)
    for (int j = 0; j < kVectors; ++j) {
      hn::Store(sum[t][j], d, m + (t * kVectors + j) * kLanes);
    }
  }
}

// One block of one plane (its vector at `offset` floats from the rows) into V. `prefetch`: the
// share of the next block.
template <class W>
HWY_NOINLINE void InputTransform(const float* const* rows, size_t offset, bool prefetch,
                                 float* HWY_RESTRICT v, size_t point_stride) {
  constexpr int kN = W::kPoints;
  const Tag d;
  HWY_ALIGN float half[kN * kN * kLanes];
  HWY_UNROLL(1)
  for (int x = 0; x < kN; ++x) {
    Vec s[kN], t[kN];
    HWY_UNROLL(8)
    for (int y = 0; y < kN; ++y) s[y] = hn::Load(d, rows[y] + offset + x * kPlaneChannels);
    if (prefetch && x < W::kOutputs) {
      HWY_UNROLL(8)
      for (int y = 0; y < kN; ++y) {
        __builtin_prefetch(rows[y] + offset + (x + kN) * kPlaneChannels, 0, 3);
      }
    }
    W::Input(d, s, t);
    HWY_UNROLL(8)
    for (int y = 0; y < kN; ++y) hn::Store(t[y], d, half + (y * kN + x) * kLanes);
  }
  HWY_UNROLL(1)
  for (int y = 0; y < kN; ++y) {
    Vec s[kN], t[kN];
    HWY_UNROLL(8)
    for (int x = 0; x < kN; ++x) s[x] = hn::Load(d, half + (y * kN + x) * kLanes);
    W::Input(d, s, t);
    HWY_UNROLL(8)
    for (int x = 0; x < kN; ++x) hn::Store(t[x], d, v + (y * kN + x) * point_stride);
  }
}

// The skip added to a row of a block, of one vector of channels.
struct NoSkip {
  template <int kOutputs>
  HWY_INLINE void AddTo(Tag, int, int, int, Vec*) const {}
};
struct Skip {
  const float* const* rows;
  size_t offset;

  template <int kOutputs>
  HWY_INLINE void AddTo(Tag d, int y, int first_px, int end_px, Vec* t) const {
    const float* HWY_RESTRICT from = rows[y] + offset;
    HWY_UNROLL(8)
    for (int x = 0; x < kOutputs; ++x) {
      if (x < first_px || x >= end_px) continue;
      t[x] = hn::Add(t[x], hn::Load(d, from + x * kPlaneChannels));
    }
  }
};

// One block of one vector of channels from M, activated, with the skip, to rows
// [first_row, end_row) and columns [first_px, end_px) of the block.
template <class W, class Added>
HWY_NOINLINE void OutputTransform(const float* HWY_RESTRICT m, size_t point_stride,
                                  const EpilogueArgs& epilogue, const float* slope,
                                  float* const* rows, size_t offset, int first_row, int end_row,
                                  int first_px, int end_px, Added added) {
  constexpr int kN = W::kPoints, kM = W::kOutputs;
  const Tag d;
  HWY_ALIGN float half[kM * kN * kLanes];
  HWY_UNROLL(1)
  for (int x = 0; x < kN; ++x) {
    Vec s[kN], t[kM];
    HWY_UNROLL(8)
    for (int y = 0; y < kN; ++y) s[y] = hn::Load(d, m + (y * kN + x) * point_stride);
    W::Output(d, s, t);
    HWY_UNROLL(8)
    for (int y = 0; y < kM; ++y) hn::Store(t[y], d, half + (y * kN + x) * kLanes);
  }
  const Vec slopes = hn::Load(d, slope);
  HWY_UNROLL(1)
  for (int y = first_row; y < end_row; ++y) {
    Vec s[kN], t[kM];
    HWY_UNROLL(8)
    for (int x = 0; x < kN; ++x) s[x] = hn::Load(d, half + (y * kN + x) * kLanes);
    W::Output(d, s, t);
    Activate<kM>(d, epilogue, slopes, t);
    added.template AddTo<kM>(d, y, first_px, end_px, t);
    float* HWY_RESTRICT dst = rows[y] + offset;
    if (first_px <= 0 && end_px >= kM) {
      HWY_UNROLL(8)
      for (int x = 0; x < kM; ++x) hn::Store(t[x], d, dst + x * kPlaneChannels);
    } else {
      HWY_UNROLL(8)
      for (int x = 0; x < kM; ++x) {
        if (x >= first_px && x < end_px) hn::Store(t[x], d, dst + x * kPlaneChannels);
      }
    }
  }
}

template <class W, int kVectors, int kTiles, int kBlockTiles>
struct Winograd {
  static constexpr int kPointCount = W::kPoints * W::kPoints;
  static constexpr int kOutChannels = kVectors * kLanes;
  static constexpr size_t kMStride = OddCacheLines(RoundUp(kBlockTiles * kOutChannels, 16));
  static constexpr int kTileStep = kTiles / (kTiles >= 14 ? 7 : 3);

  using GemmFunction = decltype(&Gemm<kVectors, kTiles, kBlockTiles>);

  // The smallest microkernel for `tiles` blocks; it may compute a few unread ones more.
  template <int kCandidate = kTiles>
  static GemmFunction SmallestGemm(int tiles) {
    constexpr int kSmaller = kCandidate - kTileStep;
    if constexpr (kSmaller > 0) {
      if (tiles <= kSmaller) return SmallestGemm<kSmaller>(tiles);
    }
    return &Gemm<kVectors, kCandidate, kBlockTiles>;
  }

  // The first of `parts` even parts of this many blocks, in whole steps of the microkernels.
  static int Share(int tiles, int parts) {
    const int steps = (tiles + parts * kTileStep - 1) / (parts * kTileStep);
    return HWY_MIN(tiles, steps * kTileStep);
  }

  static size_t VStride(int planes) {
    return OddCacheLines(static_cast<size_t>(planes) * kBlockTiles * 16);
  }
  static size_t ScratchFloats(int planes) { return kPointCount * (VStride(planes) + 2 * kMStride); }

  // Blocks of output channels between M and the output's rows.
  struct Pending {
    const float* m = nullptr;
    int channel = 0;     // first of the kOutChannels
    int first_tile = 0;  // in the row
    int next = 0;        // tile and vector to transform next
    int end = 0;
  };

  static void TransformNext(const WinogradArgs& args, Pending& pending) {
    const int tile = pending.next / kVectors, vector = pending.next % kVectors;
    ++pending.next;
    const int channel = pending.channel + vector * kLanes;
    if (channel >= args.dst_channels) return;
    const int x = (pending.first_tile + tile) * W::kOutputs;
    const size_t offset = channel / 16 * args.dst_plane_stride + x * 16 + channel % 16;
    const auto transform = [&](auto added) {
      OutputTransform<W>(pending.m + tile * kOutChannels + vector * kLanes, kMStride, args.epilogue,
                         args.epilogue.slope + channel, args.dst_rows, offset, args.dst_first_row,
                         args.dst_end_row, args.dst_first_px - x, args.dst_end_px - x, added);
    };
    if (args.residual_rows[0] == nullptr) return transform(NoSkip());
    transform(Skip{args.residual_rows,
                   channel / 16 * args.residual_plane_stride + x * 16 + channel % 16});
  }

  static void TransformInputs(const WinogradArgs& args, int first_tile, int tiles, float* v,
                              size_t v_stride) {
    for (int tile = 0; tile < tiles; ++tile) {
      const size_t x = static_cast<size_t>(first_tile + tile) * W::kOutputs;
      for (int plane = 0; plane < args.src_planes; ++plane) {
        for (int lane = 0; lane < 16; lane += kLanes) {
          InputTransform<W>(args.src_rows, plane * args.src_plane_stride + x * 16 + lane,
                            args.prefetch_src, v + (plane * kBlockTiles + tile) * 16 + lane,
                            v_stride);
        }
      }
    }
  }

  // M of one block of output channels, transforming `pending` in between, evenly spread.
  static void Multiply(const WinogradArgs& args, const float* v, size_t v_stride,
                       const float* weights, const float* next_weights, const float* bias,
                       int tiles, float* m, Pending& pending) {
    const size_t panel = static_cast<size_t>(args.src_planes) * 16 * kOutChannels;
    const int groups = (tiles + kTiles - 1) / kTiles;
    const int group_tiles = Share(tiles, groups);
    const GemmFunction gemm = SmallestGemm(group_tiles);
    const GemmFunction last_gemm = SmallestGemm(tiles - (groups - 1) * group_tiles);
    const size_t group_panel = panel / groups;
    const int calls = kPointCount * groups, tasks = pending.end - pending.next;
    int due = 0;
    for (int point = 0; point < kPointCount; ++point) {
      const float* u = weights + point * panel;
      const float* next_u = point + 1 < kPointCount ? u + panel : next_weights;
      // Every result takes point (1, 1) once, so the bias enters there.
      const float* init = point == W::kPoints + 1 ? bias : kZeros;
      for (int group = 0; group < groups; ++group) {
        const int first = group * group_tiles;
        const float* a = v + point * v_stride + first * 16;
        const float* next_a = group + 1 < groups        ? a + group_tiles * 16
                              : point + 1 < kPointCount ? v + (point + 1) * v_stride
                                                        : v;
        (group + 1 < groups ? gemm : last_gemm)(a, args.src_planes, u, init,
                                                m + point * kMStride + first * kOutChannels,
                                                next_u + group_panel * group, next_a);
        for (due += tasks; due >= calls; due -= calls) TransformNext(args, pending);
      }
    }
    while (pending.next < pending.end) TransformNext(args, pending);
  }

  static void Run(const WinogradArgs& args) {
    const size_t v_stride = VStride(args.src_planes);
    float* v = args.scratch;
    float* m[2] = {v + kPointCount * v_stride, v + kPointCount * (v_stride + kMStride)};
    const size_t block_weights =
        static_cast<size_t>(kPointCount) * args.src_planes * 16 * kOutChannels;
    const int blocks = (args.dst_channels + kOutChannels - 1) / kOutChannels;
    const int row_tiles = (args.dst_end_px + W::kOutputs - 1) / W::kOutputs;
    Pending pending;
    int current_m = 0;
    int parts = (row_tiles + kBlockTiles - 1) / kBlockTiles;
    for (int first = 0, tiles; first < row_tiles; first += tiles, --parts) {
      tiles = Share(row_tiles - first, parts);
      TransformInputs(args, first, tiles, v, v_stride);
      for (int block = 0; block < blocks; ++block) {
        const float* weights = args.weights + block * block_weights;
        const float* next_weights = block + 1 < blocks ? weights + block_weights : args.weights;
        Multiply(args, v, v_stride, weights, next_weights,
                 args.epilogue.bias + block * kOutChannels, tiles, m[current_m], pending);
        pending = {m[current_m], block * kOutChannels, first, 0, tiles * kVectors};
        current_m ^= 1;
      }
    }
    while (pending.next < pending.end) TransformNext(args, pending);
  }

  static constexpr WinogradVariant kVariant = {&Run, &ScratchFloats, kOutChannels};
};

#if HWY_TARGET <= HWY_AVX3
static_assert(kLanes == kPlaneChannels);
template <class W>
constexpr WinogradVariants kVariantsOf = {
    Winograd<W, 1, 14, 14>::kVariant, Winograd<W, 1, 28, 28>::kVariant,
    Winograd<W, 2, 14, 28>::kVariant, Winograd<W, 2, 14, 14>::kVariant,
    Winograd<W, 2, 14, 42>::kVariant};
#else
static_assert(kPlaneChannels / kLanes % 2 == 0);
template <class W>
constexpr WinogradVariants kVariantsOf = {{},
                                          {},
                                          Winograd<W, 2, 6, 24>::kVariant,
                                          Winograd<W, 2, 6, 12>::kVariant,
                                          Winograd<W, 2, 6, 36>::kVariant};
#endif

constexpr WinogradVariants kF4Variants = kVariantsOf<F4>;
constexpr WinogradVariants kF6Variants = kVariantsOf<F6>;

}  // namespace HWY_NAMESPACE
}  // namespace upscaled::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>
#include <array>
#include <utility>

#include "engine/backends/cpu/kernels/convert.h"
#include "engine/backends/cpu/kernels/isa_dispatch.h"
#include "engine/backends/cpu/kernels/winograd_kernel.h"
#include "engine/backends/cpu/kernels/winograd_weights.h"
#include "engine/base/check.h"
#include "engine/base/cpu_info.h"

namespace upscaled::cpu {
namespace {

const WinogradVariants* F4VariantsFor(Isa isa) { UPSCALED_RETURN_ADDRESS_FOR(isa, kF4Variants) }
const WinogradVariants* F6VariantsFor(Isa isa) { UPSCALED_RETURN_ADDRESS_FOR(isa, kF6Variants) }

// How many blocks at a time, for a core with so large a cache.
//
// Few where V and M of all would fill half of it, and the weights, which are then read twice as
// often, stay in it. Many where the weights come from beyond it every time, and V and M nearly fit:
// V is read in order, so that what has left the cache is fetched in time.
const WinogradVariant& ChooseEven(const WinogradVariants& variants, const Layer& layer,
                                  size_t points, size_t cache_bytes) {
  const size_t in = RoundUp(layer.in_channels, kPlaneChannels);
  const size_t out = RoundUp(layer.out_channels, kPlaneChannels);
  const size_t weight_bytes = points * points * in * out * sizeof(float);
  const auto scratch_bytes = [&](const WinogradVariant& variant) {
    return variant.scratch_floats(static_cast<int>(in / kPlaneChannels)) * sizeof(float);
  };
  if (scratch_bytes(variants.even) > cache_bytes / 2 && weight_bytes <= cache_bytes / 4) {
    return variants.even_few;
  }
  const bool many =
      weight_bytes > 2 * cache_bytes && scratch_bytes(variants.even_many) <= cache_bytes / 4 * 7;
  return many ? variants.even_many : variants.even;
}

const WinogradVariant& ChooseVariant(const WinogradVariants& variants, const Layer& layer,
                                     size_t points, Isa isa, size_t cache_bytes) {
  const int vectors = RoundUp(layer.out_channels, kPlaneChannels) / VectorLanes(isa);
  if (vectors == 1) return variants.one;
  if (vectors % 2 == 1) return variants.odd;
  return ChooseEven(variants, layer, points, cache_bytes);
}

// The output channels of one block, side by side: a vector's worth of work for each step.
constexpr int kMaxBlockChannels = 64;
using BlockChannels = std::array<double, kMaxBlockChannels>;

// a[0] * x + a[1] * y + a[2] * z, channel by channel.
template <typename T>
void Combine(const std::array<double, 3>& a, const BlockChannels& x, const BlockChannels& y,
             const BlockChannels& z, int channels, T* dst) {
  for (int o = 0; o < channels; ++o) {
    dst[o] = static_cast<T>(a[0] * x[o] + a[1] * y[o] + a[2] * z[o]);
  }
}

// The 3x3 weights of a block's output channels for input channel `in`; 0 for missing ones.
void GatherTaps(const Layer& layer, int first_out, int in, int channels,
                std::array<BlockChannels, 9>& taps) {
  for (int o = 0; o < channels; ++o) {
    const bool exists = first_out + o < layer.out_channels && in < layer.in_channels;
    const size_t at = exists ? (size_t{1} * (first_out + o) * layer.in_channels + in) * 9 : 0;
    for (size_t tap = 0; tap < 9; ++tap) taps[tap][o] = exists ? layer.weights[at + tap] : 0;
  }
}

// G w G^T of all of a layer's weights, in the order in which they lie in memory.
template <int kOutputs>
WinogradWeights PackWeights(const Layer& layer, const WeightTransform<kOutputs>& g,
                            const WinogradVariant& variant) {
  constexpr size_t kPoints = kOutputs + 2;
  const int block = variant.out_channels;
  UPSCALED_CHECK(block <= kMaxBlockChannels);
  const int blocks = CeilDiv(RoundUp(layer.out_channels, variant.out_multiple), block);
  const int in_channels = RoundUp(layer.in_channels, variant.in_multiple);
  const size_t point_stride = size_t{1} * in_channels * block;
  const size_t floats = point_stride * kPoints * kPoints * blocks;
  if (layer.weights.empty()) return {HugeBuffer(variant.half ? floats / 2 : floats), {}, {}};
  HugeBuffer packed(floats);
  std::array<BlockChannels, 9> taps;
  std::array<BlockChannels, 3> row;
  for (int b = 0; b < blocks; ++b) {
    float* const points = packed.data() + b * (point_stride * kPoints * kPoints);
    for (int i = 0; i < in_channels; ++i) {
      GatherTaps(layer, b * block, i, block, taps);
      for (size_t y = 0; y < kPoints; ++y) {
        for (size_t x = 0; x < 3; ++x) {
          Combine(g[y], taps[x], taps[3 + x], taps[6 + x], block, row[x].data());
        }
        for (size_t x = 0; x < kPoints; ++x) {
          Combine(g[x], row[0], row[1], row[2], block,
                  points + (y * kPoints + x) * point_stride + size_t{1} * i * block);
        }
      }
    }
  }
  return {variant.half ? ToHalves(packed, Isa::kAvx512) : std::move(packed), {}, {}};
}

template <int kOutputs>
std::unique_ptr<LayerKernel> MakeKernel(const Layer& layer, const WeightTransform<kOutputs>& g,
                                        const WinogradVariant& variant, size_t cache_bytes) {
  return std::make_unique<WinogradKernel>(layer, kOutputs, variant, cache_bytes,
                                          PackWeights<kOutputs>(layer, g, variant));
}

}  // namespace

bool WinogradSupports(const Layer& layer) {
  return layer.op == Op::kConv && layer.kernel_px == 3 && layer.stride_px == 1 &&
         layer.in_channels > kMaxInterleavedChannels &&
         layer.out_channels > kMaxInterleavedChannels;
}

std::unique_ptr<LayerKernel> MakeWinograd(const Layer& layer, Isa isa, int outputs,
                                          size_t cache_bytes) {
  if (outputs == 4) {
    const WinogradVariant& variant =
        ChooseVariant(*F4VariantsFor(isa), layer, kF4Weights.size(), isa, cache_bytes);
    return MakeKernel<4>(layer, kF4Weights, variant, cache_bytes);
  }
  const WinogradVariant& variant =
      ChooseVariant(*F6VariantsFor(isa), layer, kF6Weights.size(), isa, cache_bytes);
  return MakeKernel<6>(layer, kF6Weights, variant, cache_bytes);
}

std::unique_ptr<LayerKernel> MakeWinogradF4(const Layer& layer, Isa isa) {
  return MakeWinograd(layer, isa, 4, CoreCacheBytes());
}

std::unique_ptr<LayerKernel> MakeWinogradF6(const Layer& layer, Isa isa) {
  return MakeWinograd(layer, isa, 6, CoreCacheBytes());
}

#ifdef UPSCALED_FP16
std::unique_ptr<LayerKernel> MakeWinogradF4Fp16(const Layer& layer, Isa /*isa*/) {
  constexpr WeightTransform<4> kWeights =
      WeightsOfPoints(kWinograd16BitPoints[0], kWinograd16BitPoints[1]);
  const bool narrow = layer.out_channels <= kHalfPlaneChannels;
  return MakeKernel<4>(layer, kWeights, narrow ? kWinogradF4Fp16Narrow : kWinogradF4Fp16,
                       CoreCacheBytes());
}
#endif

}  // namespace upscaled::cpu
#endif  // HWY_ONCE
