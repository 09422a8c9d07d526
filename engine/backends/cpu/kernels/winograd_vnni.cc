// Winograd F(4x4, 3x3) in products of 16-bit integers (vpdpwssd), two to a lane, with transforms in
// fp32; tensors hold halves, a result of one plane may be floats. Points are numbered x * 6 + y.
// Data of one step, for T blocks at a time:
//   V[point][plane of 32][T][32]  int16: transformed input times a scale per point and channel
//   U[block of OB outputs][point][pair of input channels][OB][2]  int16: weights, scaled as well
//   M[y][T][OB]                   int32: the sums of one x of points, which stay in L1
//   H[T][OB / 16][x][row][16]     fp32: M scaled back, after the vertical half of its transform
//
// V is computed once. Then, per block of OB outputs, every point is a small product V x U -> M;
// each six go through the vertical half of the output transform, and between the products the
// *previous* block of outputs leaves H through the horizontal half.
//
// No V can overflow a sum (see PackInt16). A V that reaches the end of its range was clipped: its
// block's results become NaN, which later layers keep, and are computed again.
//
// The microkernel keeps 14 blocks x 2 vectors of sums, 28 x 1 or 9 x 3 if the outputs divide so;
// as many blocks are computed at a time. Pairs of channels lie as vpackssdw leaves them.
#include "engine/backends/cpu/kernels/args.h"
#include "engine/backends/cpu/kernels/avx512-inl.h"
#include "engine/backends/cpu/kernels/vnni-inl.h"
#include "engine/backends/cpu/kernels/winograd_f4_16bit-inl.h"

namespace upscaled::cpu {
namespace {

constexpr int kPairs = 8;  // of input channels, which come in multiples of 16

UPSCALED_AVX512_INLINE void PrefetchLine(const void* p) {
  _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0);
}

// m[tile][kVectors] = sum over `steps` x 16 channels of v[tile][pair] . u[pair][kVectors].
template <int kVectors, int kTiles, int kBlockTiles>
__attribute__((noinline)) void Gemm(const Int16* __restrict v, int steps, const Int16* __restrict u,
                                    int* __restrict m, const Int16* next_u, const Int16* next_v) {
  constexpr int kNextLines = (kTiles + 1) / 2;  // of next_v, per step
  __m512i sum[kTiles][kVectors];
  UPSCALED_UNROLL(32)
  for (int t = 0; t < kTiles; ++t) {
    UPSCALED_UNROLL(4)
    for (int j = 0; j < kVectors; ++j) sum[t][j] = _mm512_setzero_si512();
  }
  int pairs = kPairs;
  asm("" : "+r"(pairs));  // GCC would unroll the loop whole and keep the sums in memory
  for (int step = 0; step < steps; ++step) {
    const bool plane_ends = step % 2 != 0;
    UPSCALED_UNROLL(1)
    for (int k = 0; k < pairs; ++k) {
      __m512i w[kVectors];
      UPSCALED_UNROLL(4)
      for (int j = 0; j < kVectors; ++j) w[j] = LoadWeights(u + j * 32);
      u += kVectors * 32;
      UPSCALED_UNROLL(4)
      for (int j = 0; j < kVectors; ++j) PrefetchLine(next_u + j * 32);
      next_u += kVectors * 32;
      if (k < kNextLines) PrefetchLine(next_v + (plane_ends * kNextLines + k) * 32);
      UPSCALED_UNROLL(32)
      for (int t = 0; t < kTiles; ++t) {
        const __m512i x = BroadcastPair(v + t * 32 + k * 2);
        UPSCALED_UNROLL(4)
        for (int j = 0; j < kVectors; ++j) AddProducts(x, w[j], sum[t][j]);
      }
    }
    v += plane_ends ? kBlockTiles * 32 - 16 : 16;
    next_v += plane_ends ? kBlockTiles * 32 : 0;
  }
  UPSCALED_UNROLL(32)
  for (int t = 0; t < kTiles; ++t) {
    UPSCALED_UNROLL(4)
    for (int j = 0; j < kVectors; ++j) {
      _mm512_store_si512(m + (t * kVectors + j) * kFloatLanes, sum[t][j]);
    }
  }
}

// The vertical transforms of a block's columns: those that it shares with the block before it are
// kept in a ring of eight.
constexpr int kRingColumns = 8;
struct Columns {
  alignas(64) float at[kRingColumns][F4::kPoints][2][kFloatLanes];
};

// One block of a plane of kVectors x 16 channels into V; its first column is kFirst of the ring,
// which holds those before `begin`. Returns whether a V was clipped.
template <int kVectors, int kFirst>
__attribute__((noinline)) bool InputTransform(const float* const* rows, size_t offset, int begin,
                                              const float* scale, size_t scale_stride,
                                              Columns& __restrict columns, Int16* __restrict v,
                                              size_t v_stride) {
  constexpr int kN = F4::kPoints;
  UPSCALED_UNROLL(1)
  for (int x = begin; x < kN; ++x) {
    auto& column = columns.at[(kFirst + x) % kRingColumns];
    UPSCALED_UNROLL(8)
    for (int y = 0; y < kN; ++y) {
      PrefetchLine(rows[y] + offset + (x + F4::kOutputs) * kPlaneFloats);
    }
    UPSCALED_UNROLL(2)
    for (int j = 0; j < kVectors; ++j) {
      __m512 s[kN], t[kN];
      UPSCALED_UNROLL(8)
      for (int y = 0; y < kN; ++y) {
        s[y] = LoadHalves(rows[y] + offset + x * kPlaneFloats + j * kPlaneFloats / 2);
      }
      F4::Input(s, t);
      UPSCALED_UNROLL(8)
      for (int y = 0; y < kN; ++y) _mm512_store_ps(column[y][j], t[y]);
    }
  }
  __m512i largest = _mm512_setzero_si512();
  UPSCALED_UNROLL(1)
  for (int y = 0; y < kN; ++y) {
    __m512i q[2][kN];
    UPSCALED_UNROLL(2)
    for (int j = 0; j < kVectors; ++j) {
      __m512 s[kN], t[kN];
      UPSCALED_UNROLL(8)
      for (int x = 0; x < kN; ++x) {
        s[x] = _mm512_load_ps(columns.at[(kFirst + x) % kRingColumns][y][j]);
      }
      F4::Input(s, t);
      UPSCALED_UNROLL(8)
      for (int x = 0; x < kN; ++x) {
        const float* factor = scale + (x * kN + y) * scale_stride + j * kFloatLanes;
        q[j][x] = _mm512_cvtps_epi32(_mm512_mul_ps(t[x], _mm512_load_ps(factor)));
      }
    }
    UPSCALED_UNROLL(8)
    for (int x = 0; x < kN; ++x) {
      Int16* const to = v + (x * kN + y) * v_stride;
      __m512i n;
      if constexpr (kVectors == 2) {
        n = _mm512_packs_epi32(q[0][x], q[1][x]);
        _mm512_store_si512(to, n);
      } else {
        n = _mm512_zextsi256_si512(_mm512_cvtsepi32_epi16(q[0][x]));
        _mm256_store_si256(reinterpret_cast<__m256i*>(to), _mm512_castsi512_si256(n));
      }
      largest = _mm512_max_epu16(largest, _mm512_abs_epi16(n));
    }
  }
  return _mm512_cmpge_epu16_mask(largest, _mm512_set1_epi16(kClipped)) != 0;
}

// 16 channels of a result: halves next to others, halves before 16 zeros, floats.
enum class Stored { kHalves, kHalvesAndZeros, kFloats };

// 16 channels of one block from H, activated, to rows [first_row, end_row) and columns
// [first_px, end_px) of the block.
template <Stored kStored>
__attribute__((noinline)) void OutputTransform(const float* __restrict h,
                                               const EpilogueArgs& epilogue, __m512 bias,
                                               __m512 slope, float* const* rows, size_t offset,
                                               int first_row, int end_row, int first_px,
                                               int end_px) {
  constexpr int kN = F4::kPoints, kM = F4::kOutputs;
  UPSCALED_UNROLL(1)
  for (int y = first_row; y < end_row; ++y) {
    __m512 s[kN], t[kM];
    UPSCALED_UNROLL(8)
    for (int x = 0; x < kN; ++x) s[x] = _mm512_load_ps(h + (x * kM + y) * kFloatLanes);
    F4::Output(s, bias, t);
    Activate<kM>(epilogue, slope, t);
    float* __restrict dst = rows[y] + offset;
    UPSCALED_UNROLL(8)
    for (int x = 0; x < kM; ++x) {
      if (x < first_px || x >= end_px) continue;
      float* const to = dst + x * kPlaneFloats;
      if constexpr (kStored == Stored::kFloats) {
        _mm512_store_ps(to, t[x]);
        continue;
      }
      const __m256i halves = _mm512_cvtps_ph(t[x], kRoundToNearest);
      if constexpr (kStored == Stored::kHalvesAndZeros) {
        _mm512_store_si512(to, _mm512_zextsi256_si512(halves));
      } else {
        _mm256_store_si256(reinterpret_cast<__m256i*>(to), halves);
      }
    }
  }
}

template <int kVectors, int kTiles>
struct Winograd {
  static constexpr int kN = F4::kPoints, kM = F4::kOutputs;
  static constexpr int kPointCount = kN * kN;
  static constexpr int kOutChannels = kVectors * kFloatLanes;
  static constexpr size_t OddCacheLines(size_t lines) { return lines | 1; }
  static constexpr size_t kMStride = OddCacheLines(size_t{kTiles} * kVectors) * kFloatLanes;
  static constexpr size_t kHStride = size_t{kN} * kM * kFloatLanes;  // of a block's vector
  static constexpr size_t kHFloats = kHStride * kVectors * kTiles;
  static_assert(kTiles <= 32);  // bits of Pending::clipped

  using GemmFunction = decltype(&Gemm<kVectors, kTiles, kTiles>);

  // The smallest microkernel for `tiles` blocks; it may compute a few unread ones more.
  template <int kCandidate = kTiles>
  static GemmFunction SmallestGemm(int tiles) {
    constexpr int kSmaller = kCandidate - (kTiles + 6) / 7;
    if constexpr (kSmaller > 0) {
      if (tiles <= kSmaller) return SmallestGemm<kSmaller>(tiles);
    }
    return &Gemm<kVectors, kCandidate, kTiles>;
  }

  static size_t VStride(int planes) {  // in int16
    return OddCacheLines(static_cast<size_t>(planes) * kTiles) * kHalfLanes;
  }
  static size_t ScratchFloats(int planes) {
    return kPointCount * VStride(planes) / 2 + kN * kMStride + 2 * kHFloats;
  }

  // Blocks of output channels between H and the output's rows.
  struct Pending {
    const float* h = nullptr;
    int channel = 0;     // first of the kOutChannels
    int first_tile = 0;  // in the row
    int next = 0;        // tile and vector to transform next
    int end = 0;
    unsigned clipped = 0;  // a bit a tile
  };

  // The function to store 16 channels from `channel` on.
  static decltype(&OutputTransform<Stored::kHalves>) OutputOf(const WinogradArgs& args,
                                                              int channel) {
    if (!args.dst_half) return &OutputTransform<Stored::kFloats>;
    // With an odd number of vectors the last plane's second half is unused.
    const bool fills = kVectors % 2 != 0 && channel % kHalfLanes == 0 &&
                       channel + kFloatLanes >= args.dst_channels;
    return fills ? &OutputTransform<Stored::kHalvesAndZeros> : &OutputTransform<Stored::kHalves>;
  }

  static void TransformNext(const WinogradArgs& args, Pending& pending) {
    const int tile = pending.next / kVectors, vector = pending.next % kVectors;
    const float* const h = pending.h + pending.next * kHStride;
    ++pending.next;
    const int channel = pending.channel + vector * kFloatLanes;
    if (channel >= args.dst_channels) return;
    const int x = (pending.first_tile + tile) * kM;
    const size_t offset =
        channel / kHalfLanes * args.dst_plane_stride + x * kPlaneFloats + channel % kHalfLanes / 2;
    const bool clipped = (pending.clipped >> tile & 1) != 0;
    const __m512 bias =
        clipped ? _mm512_set1_ps(__builtin_nanf("")) : _mm512_load_ps(args.epilogue.bias + channel);
    const __m512 slope = _mm512_load_ps(args.epilogue.slope + channel);
    OutputOf(args, channel)(h, args.epilogue, bias, slope, args.dst_rows, offset,
                            args.dst_first_row, args.dst_end_row, args.dst_first_px - x,
                            args.dst_end_px - x);
  }

  // V of one plane; returns the tiles with a clipped one, a bit each.
  template <int kPlaneVectors>
  static unsigned TransformPlane(const WinogradArgs& args, int plane, int first_tile, int tiles,
                                 Int16* v, size_t v_stride) {
    Columns columns;
    const size_t src = plane * args.src_plane_stride;
    const float* const scale = args.src_scale + plane * kHalfLanes;
    const size_t scale_stride = static_cast<size_t>(args.src_planes) * kHalfLanes;
    unsigned clipped = 0;
    for (int tile = 0; tile < tiles; ++tile) {
      const size_t offset = src + static_cast<size_t>(first_tile + tile) * kM * kPlaneFloats;
      Int16* const to = v + (plane * kTiles + tile) * kHalfLanes;
      const auto transform =
          tile % 2 == 0 ? &InputTransform<kPlaneVectors, 0> : &InputTransform<kPlaneVectors, kM>;
      const int begin = tile == 0 ? 0 : kN - kM;
      const bool clips =
          transform(args.src_rows, offset, begin, scale, scale_stride, columns, to, v_stride);
      clipped |= static_cast<unsigned>(clips) << tile;
    }
    return clipped;
  }

  static unsigned TransformInputs(const WinogradArgs& args, int first_tile, int tiles, Int16* v,
                                  size_t v_stride) {
    unsigned clipped = 0;
    for (int plane = 0; plane < args.src_planes; ++plane) {
      const bool half = args.src_channels - plane * kHalfLanes < kHalfLanes;
      clipped |= (half ? TransformPlane<1> : TransformPlane<2>)(args, plane, first_tile, tiles, v,
                                                                v_stride);
    }
    return clipped;
  }

  // M of the six points of one x, scaled back, to H.
  __attribute__((noinline)) static void VerticalOutput(const int* __restrict m,
                                                       const float* __restrict scale, int tiles,
                                                       float* __restrict h) {
    UPSCALED_UNROLL(1)
    for (int j = 0; j < kVectors; ++j) {
      __m512 factor[kN];
      UPSCALED_UNROLL(8)
      for (int y = 0; y < kN; ++y) {
        factor[y] = _mm512_load_ps(scale + y * kOutChannels + j * kFloatLanes);
      }
      UPSCALED_UNROLL(1)
      for (int i = j; i < tiles * kVectors; i += kVectors) {
        __m512 s[kN], t[kM];
        UPSCALED_UNROLL(8)
        for (int y = 0; y < kN; ++y) {
          const __m512i sum = _mm512_load_si512(m + y * kMStride + i * kFloatLanes);
          s[y] = _mm512_mul_ps(_mm512_cvtepi32_ps(sum), factor[y]);
        }
        F4::Output(s, _mm512_setzero_ps(), t);
        UPSCALED_UNROLL(8)
        for (int y = 0; y < kM; ++y) _mm512_store_ps(h + i * kHStride + y * kFloatLanes, t[y]);
      }
    }
  }

  // H of one block of output channels, transforming `pending` in between, evenly spread.
  static void Multiply(const WinogradArgs& args, const Int16* v, size_t v_stride,
                       const Int16* weights, const Int16* next_weights, const float* scale,
                       int tiles, int* m, float* h, Pending& pending) {
    const int steps = args.src_channels / (2 * kPairs);
    const size_t panel = static_cast<size_t>(args.src_channels) * kOutChannels;
    const GemmFunction gemm = SmallestGemm(tiles);
    const int tasks = pending.end - pending.next;
    int due = 0;
    for (int x = 0; x < kN; ++x) {
      for (int y = 0; y < kN; ++y) {
        const int point = x * kN + y;
        const bool last = point + 1 == kPointCount;
        gemm(v + point * v_stride, steps, weights + point * panel, m + y * kMStride,
             last ? next_weights : weights + (point + 1) * panel,
             last ? v : v + (point + 1) * v_stride);
        for (due += tasks; due >= kPointCount; due -= kPointCount) TransformNext(args, pending);
      }
      VerticalOutput(m, scale + x * kN * kOutChannels, tiles, h + x * kM * kFloatLanes);
    }
  }

  static void Run(const WinogradArgs& args) {
    const size_t v_stride = VStride(args.src_planes);
    Int16* const v = reinterpret_cast<Int16*>(args.scratch);
    float* const floats = args.scratch + kPointCount * v_stride / 2;
    int* const m = reinterpret_cast<int*>(floats);
    float* const h[2] = {floats + kN * kMStride, floats + kN * kMStride + kHFloats};
    const Int16* const all_weights = reinterpret_cast<const Int16*>(args.weights);
    const size_t block_weights =
        static_cast<size_t>(kPointCount) * args.src_channels * kOutChannels;
    const int blocks = (args.dst_channels + kOutChannels - 1) / kOutChannels;
    const int row_tiles = (args.dst_end_px + kM - 1) / kM;
    Pending pending;
    int current = 0;
    int parts = (row_tiles + kTiles - 1) / kTiles;
    for (int first = 0, tiles; first < row_tiles; first += tiles, --parts) {
      tiles = (row_tiles - first + parts - 1) / parts;
      const unsigned clipped = TransformInputs(args, first, tiles, v, v_stride);
      for (int block = 0; block < blocks; ++block) {
        const Int16* weights = all_weights + block * block_weights;
        const Int16* next_weights = block + 1 < blocks ? weights + block_weights : all_weights;
        const float* scale = args.dst_scale + block * kPointCount * kOutChannels;
        Multiply(args, v, v_stride, weights, next_weights, scale, tiles, m, h[current], pending);
        pending = {h[current], block * kOutChannels, first, 0, tiles * kVectors, clipped};
        current ^= 1;
      }
    }
    while (pending.next < pending.end) TransformNext(args, pending);
  }

  static constexpr int kOutMultiple = kVectors % 2 == 0 ? kHalfPlaneChannels : kOutChannels;
  static constexpr WinogradVariant kVariant = {&Run,       &ScratchFloats, kOutChannels,
                                               2 * kPairs, kOutMultiple,   true};
};

}  // namespace

const WinogradVariant kWinogradF4Vnni[] = {Winograd<1, 28>::kVariant, Winograd<2, 14>::kVariant,
                                           Winograd<3, 9>::kVariant};

void MeasureF4Points(const float* const* rows, size_t offset, float* largest) {
  constexpr int kN = F4::kPoints;
  alignas(64) float columns[kN][kN][kFloatLanes];
  for (int x = 0; x < kN; ++x) {
    __m512 s[kN], t[kN];
    for (int y = 0; y < kN; ++y) s[y] = _mm512_load_ps(rows[y] + offset + x * kPlaneFloats);
    F4::Input(s, t);
    for (int y = 0; y < kN; ++y) _mm512_store_ps(columns[x][y], t[y]);
  }
  for (int y = 0; y < kN; ++y) {
    __m512 s[kN], t[kN];
    for (int x = 0; x < kN; ++x) s[x] = _mm512_load_ps(columns[x][y]);
    F4::Input(s, t);
    for (int x = 0; x < kN; ++x) {
      float* const to = largest + (x * kN + y) * kFloatLanes;
      _mm512_storeu_ps(to, _mm512_max_ps(_mm512_loadu_ps(to), _mm512_abs_ps(t[x])));
    }
  }
}

}  // namespace upscaled::cpu
