// As winograd.cc, in halves: planes and vectors of 32 channels, F(4x4, 3x3) only.
//
// Products are summed in fp16 too; over a few hundred channels this costs less than the transforms
// do.
//
// The microkernel keeps 14 blocks x 2 vectors (28 x 1 for at most 32 output channels) and takes
// its inputs as broadcast memory operands.
#include "engine/backends/cpu/kernels/args.h"
#include "engine/backends/cpu/kernels/avx512-inl.h"
#include "engine/backends/cpu/kernels/winograd_f4_16bit-inl.h"

namespace upscaled::cpu {
namespace {

constexpr size_t OddCacheLines(size_t halves) {
  return halves / kHalfLanes % 2 == 0 ? halves + kHalfLanes : halves;
}

template <int kVectors>
UPSCALED_AVX512_INLINE void ConvertChannels(const float* values, Half* halves) {
  for (int i = 0; i < kVectors; ++i) {
    _mm512_store_ph(halves + i * kHalfLanes,
                    ToHalves(_mm512_loadu_ps(values + i * kHalfLanes),
                             _mm512_loadu_ps(values + i * kHalfLanes + kFloatLanes)));
  }
}

constexpr int kStep = 16;  // input channels come in multiples

// A sum over more input channels is made of sums over so many: the longer a sum in fp16, the more
// of what it adds is rounded away.
constexpr int kShortSum = 64;

// m[tile][kVectors] = sum over k of v[tile][k] * u[k][kVectors], for kTiles tiles, or (kAdd) adds
// it. v: [plane][kBlockTiles][32].
template <int kVectors, int kTiles, int kBlockTiles, bool kAdd>
__attribute__((noinline)) void Gemm(const Half* __restrict v, int channels,
                                    const Half* __restrict u, Half* __restrict m,
                                    const Half* next_u, const Half* next_v) {
  __m512h sum[kTiles][kVectors];
  UPSCALED_UNROLL(32)
  for (int t = 0; t < kTiles; ++t) {
    UPSCALED_UNROLL(4)
    for (int j = 0; j < kVectors; ++j) sum[t][j] = _mm512_setzero_ph();
  }
  constexpr int kStoredLines = kTiles * kVectors;
  for (int first = 0; first < channels; first += kStep) {
    UPSCALED_UNROLL(2)
    for (int k = 0; k < kStep; ++k) {
      __m512h w[kVectors];
      UPSCALED_UNROLL(4)
      for (int j = 0; j < kVectors; ++j) w[j] = _mm512_load_ph(u + j * kHalfLanes);
      u += kVectors * kHalfLanes;
      _mm_prefetch(reinterpret_cast<const char*>(next_u), _MM_HINT_T1);
      next_u += kHalfLanes;
      _mm_prefetch(reinterpret_cast<const char*>(next_v + k * kHalfLanes), _MM_HINT_T0);
      if (first + k < kStoredLines) __builtin_prefetch(m + (first + k) * kHalfLanes, 1, 3);
      UPSCALED_UNROLL(32)
      for (int t = 0; t < kTiles; ++t) {
        UPSCALED_UNROLL(4)
        for (int j = 0; j < kVectors; ++j) {
          MulAddBroadcast(v + t * kHalfLanes + k, w[j], sum[t][j]);
        }
      }
    }
    const bool plane_ends = first / kStep % 2 != 0;
    v += plane_ends ? kBlockTiles * kHalfLanes - kStep : kStep;
    next_v += plane_ends ? (kBlockTiles - kStep) * kHalfLanes : kStep * kHalfLanes;
  }
  UPSCALED_UNROLL(32)
  for (int t = 0; t < kTiles; ++t) {
    UPSCALED_UNROLL(4)
    for (int j = 0; j < kVectors; ++j) {
      Half* const to = m + (t * kVectors + j) * kHalfLanes;
      _mm512_store_ph(to, kAdd ? _mm512_add_ph(_mm512_load_ph(to), sum[t][j]) : sum[t][j]);
    }
  }
}

// One block of one plane into V.
template <class W>
__attribute__((noinline)) void InputTransform(const float* const* rows, size_t offset,
                                              Half* __restrict v, size_t point_stride) {
  constexpr int kN = W::kPoints;
  alignas(64) Half half[kN * kN * kHalfLanes];
  UPSCALED_UNROLL(1)
  for (int x = 0; x < kN; ++x) {
    __m512h s[kN], t[kN];
    UPSCALED_UNROLL(8)
    for (int y = 0; y < kN; ++y) s[y] = _mm512_load_ph(rows[y] + offset + x * kPlaneFloats);
    W::Input(s, t);
    UPSCALED_UNROLL(8)
    for (int y = 0; y < kN; ++y) _mm512_store_ph(half + (y * kN + x) * kHalfLanes, t[y]);
  }
  UPSCALED_UNROLL(1)
  for (int y = 0; y < kN; ++y) {
    __m512h s[kN], t[kN];
    UPSCALED_UNROLL(8)
    for (int x = 0; x < kN; ++x) s[x] = _mm512_load_ph(half + (y * kN + x) * kHalfLanes);
    W::Input(s, t);
    UPSCALED_UNROLL(8)
    for (int x = 0; x < kN; ++x) _mm512_store_ph(v + (y * kN + x) * point_stride, t[x]);
  }
}

// One block of one plane from M, activated, to rows [first_row, end_row) and columns
// [first_px, end_px) of the block.
template <class W>
__attribute__((noinline)) void OutputTransform(const Half* __restrict m, size_t point_stride,
                                               const EpilogueArgs& epilogue, const Half* bias,
                                               const Half* slope, float* const* rows, size_t offset,
                                               int first_row, int end_row, int first_px,
                                               int end_px) {
  constexpr int kN = W::kPoints, kM = W::kOutputs;
  alignas(64) Half half[kM * kN * kHalfLanes];
  UPSCALED_UNROLL(1)
  for (int x = 0; x < kN; ++x) {
    __m512h s[kN], t[kM];
    UPSCALED_UNROLL(8)
    for (int y = 0; y < kN; ++y) s[y] = _mm512_load_ph(m + (y * kN + x) * point_stride);
    W::Output(s, _mm512_setzero_ph(), t);
    UPSCALED_UNROLL(8)
    for (int y = 0; y < kM; ++y) _mm512_store_ph(half + (y * kN + x) * kHalfLanes, t[y]);
  }
  const __m512h biases = _mm512_load_ph(bias), slopes = _mm512_load_ph(slope);
  UPSCALED_UNROLL(1)
  for (int y = first_row; y < end_row; ++y) {
    __m512h s[kN], t[kM];
    UPSCALED_UNROLL(8)
    for (int x = 0; x < kN; ++x) s[x] = _mm512_load_ph(half + (y * kN + x) * kHalfLanes);
    W::Output(s, biases, t);
    Activate<kM>(epilogue, slopes, t);
    float* __restrict dst = rows[y] + offset;
    UPSCALED_UNROLL(8)
    for (int x = 0; x < kM; ++x) {
      if (x >= first_px && x < end_px) _mm512_store_ph(dst + x * kPlaneFloats, t[x]);
    }
  }
}

template <class W, int kVectors, int kTiles, int kBlockTiles>
struct Winograd {
  static constexpr int kPointCount = W::kPoints * W::kPoints;
  static constexpr int kOutChannels = kVectors * kHalfLanes;
  static constexpr size_t kMStride = OddCacheLines(size_t{kBlockTiles} * kOutChannels);

  using GemmFunction = decltype(&Gemm<kVectors, kTiles, kBlockTiles, false>);

  // The smallest microkernel for `tiles` blocks; it may compute a few unread ones more.
  template <bool kAdd, int kCandidate = kTiles>
  static GemmFunction SmallestGemm(int tiles) {
    constexpr int kSmaller = kCandidate - kTiles / 7;
    if constexpr (kSmaller > 0) {
      if (tiles <= kSmaller) return SmallestGemm<kAdd, kSmaller>(tiles);
    }
    return &Gemm<kVectors, kCandidate, kBlockTiles, kAdd>;
  }

  static size_t VStride(int planes) {
    return OddCacheLines(static_cast<size_t>(planes) * kBlockTiles * kHalfLanes);
  }
  static size_t ScratchFloats(int planes) {
    return kPointCount * (VStride(planes) + 2 * kMStride) / 2;
  }

  // Blocks of output channels between M and the output's rows.
  struct Pending {
    const Half* m = nullptr;
    int channel = 0;     // first of the kOutChannels
    int first_tile = 0;  // in the row
    int next = 0;        // tile and vector to transform next
    int end = 0;
    alignas(64) Half bias[kOutChannels];
    alignas(64) Half slope[kOutChannels];
  };

  static void TransformNext(const WinogradArgs& args, Pending& pending) {
    const int tile = pending.next / kVectors, vector = pending.next % kVectors;
    ++pending.next;
    const int lane = vector * kHalfLanes, channel = pending.channel + lane;
    if (channel >= args.dst_channels) return;
    const int x = (pending.first_tile + tile) * W::kOutputs;
    const size_t offset = channel / kHalfLanes * args.dst_plane_stride + x * kPlaneFloats;
    OutputTransform<W>(pending.m + tile * kOutChannels + lane, kMStride, args.epilogue,
                       pending.bias + lane, pending.slope + lane, args.dst_rows, offset,
                       args.dst_first_row, args.dst_end_row, args.dst_first_px - x,
                       args.dst_end_px - x);
  }

  static void TransformInputs(const WinogradArgs& args, int first_tile, int tiles, Half* v,
                              size_t v_stride) {
    for (int tile = 0; tile < tiles; ++tile) {
      const size_t x = static_cast<size_t>(first_tile + tile) * W::kOutputs;
      for (int plane = 0; plane < args.src_planes; ++plane) {
        InputTransform<W>(args.src_rows, plane * args.src_plane_stride + x * kPlaneFloats,
                          v + (plane * kBlockTiles + tile) * kHalfLanes, v_stride);
      }
    }
  }

  // M of one block of output channels, transforming `pending` in between, evenly spread.
  static void Multiply(const WinogradArgs& args, const Half* v, size_t v_stride,
                       const Half* weights, const Half* next_weights, int tiles, Half* m,
                       Pending& pending) {
    const size_t panel = static_cast<size_t>(args.src_channels) * kOutChannels;
    const int groups = (tiles + kTiles - 1) / kTiles;
    const int calls = kPointCount * groups, tasks = pending.end - pending.next;
    int due = 0;
    for (int point = 0; point < kPointCount; ++point) {
      const Half* u = weights + point * panel;
      const Half* next_u = point + 1 < kPointCount ? u + panel : next_weights;
      for (int group = 0; group < groups; ++group) {
        const int first = group * kTiles;
        const Half* a = v + point * v_stride + first * kHalfLanes;
        const Half* next_a = group + 1 < groups        ? a + kTiles * kHalfLanes
                             : point + 1 < kPointCount ? v + (point + 1) * v_stride
                                                       : v;
        const Half* prefetch_u = next_u + panel / groups * group;
        Half* const product = m + point * kMStride + first * kOutChannels;
        const int channels = args.src_channels;
        SmallestGemm<false>(tiles - first)(a, Min(channels, kShortSum), u, product, prefetch_u,
                                           next_a);
        const GemmFunction add = SmallestGemm<true>(tiles - first);
        for (int k = kShortSum; k < channels; k += kShortSum) {
          const size_t plane = k / kHalfLanes * kBlockTiles * kHalfLanes;
          add(a + plane, Min(channels - k, kShortSum), u + static_cast<size_t>(k) * kOutChannels,
              product, prefetch_u + k * kHalfLanes, next_a + plane);
        }
        for (due += tasks; due >= calls; due -= calls) TransformNext(args, pending);
      }
    }
    while (pending.next < pending.end) TransformNext(args, pending);
  }

  static void Run(const WinogradArgs& args) {
    const size_t v_stride = VStride(args.src_planes);
    Half* v = reinterpret_cast<Half*>(args.scratch);
    Half* m[2] = {v + kPointCount * v_stride, v + kPointCount * (v_stride + kMStride)};
    const Half* all_weights = reinterpret_cast<const Half*>(args.weights);
    const size_t block_weights =
        static_cast<size_t>(kPointCount) * args.src_channels * kOutChannels;
    const int blocks = (args.dst_channels + kOutChannels - 1) / kOutChannels;
    const int row_tiles = (args.dst_end_px + W::kOutputs - 1) / W::kOutputs;
    Pending pending;
    int current_m = 0;
    for (int first = 0; first < row_tiles; first += kBlockTiles) {
      const int tiles = Min(row_tiles - first, kBlockTiles);
      TransformInputs(args, first, tiles, v, v_stride);
      for (int block = 0; block < blocks; ++block) {
        const Half* weights = all_weights + block * block_weights;
        const Half* next_weights = block + 1 < blocks ? weights + block_weights : all_weights;
        Multiply(args, v, v_stride, weights, next_weights, tiles, m[current_m], pending);
        pending.m = m[current_m];
        pending.channel = block * kOutChannels;
        pending.first_tile = first;
        pending.next = 0;
        pending.end = tiles * kVectors;
        ConvertChannels<kVectors>(args.epilogue.bias + pending.channel, pending.bias);
        ConvertChannels<kVectors>(args.epilogue.slope + pending.channel, pending.slope);
        current_m ^= 1;
      }
    }
    while (pending.next < pending.end) TransformNext(args, pending);
  }

  static constexpr WinogradVariant kVariant = {&Run,  &ScratchFloats,     kOutChannels,
                                               kStep, kHalfPlaneChannels, true};
};

}  // namespace

const WinogradVariant kWinogradF4Fp16 = Winograd<F4, 2, 14, 42>::kVariant;
const WinogradVariant kWinogradF4Fp16Narrow = Winograd<F4, 1, 28, 56>::kVariant;

}  // namespace upscaled::cpu
