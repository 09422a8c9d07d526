// Direct convolution in products of 16-bit integers (vpdpwssd), two to a lane; blocked tensors hold
// halves.
//
// The source has been made integers. A register tile is P adjacent outputs x V vectors of channels:
// 14 x 2, or 28 x 1 and 9 x 3 where the channel count does not divide. Each step loads V vectors of
// pairs of weights and broadcasts a pair of P cells. So many products as cannot overflow 32 bits
// are added up in registers and then, in fp32, on the stack. Where they are all there are (3x3 of
// an image, 1x1 of few channels) and halves are stored, the stack is left out.
#include "engine/backends/cpu/kernels/args.h"
#include "engine/backends/cpu/kernels/avx512-inl.h"
#include "engine/backends/cpu/kernels/vnni-inl.h"

namespace upscaled::cpu {
namespace {

// The sums of one register tile, in fp32.
template <int kVectors, int kPixels>
struct Sums {
  alignas(64) float at[kVectors][kPixels][kFloatLanes];
};

// The products of `run_count` runs of cells, added up.
template <int kCell, int kVectors, int kPixels>
UPSCALED_AVX512_INLINE void SumRuns(const Int16* v, const int* runs, int run_count, int run_pairs,
                                    const Int16* __restrict w, __m512i (&sum)[kPixels][kVectors]) {
  UPSCALED_UNROLL(32)
  for (int p = 0; p < kPixels; ++p) {
    UPSCALED_UNROLL(4)
    for (int j = 0; j < kVectors; ++j) sum[p][j] = _mm512_setzero_si512();
  }
  for (int run = 0; run < run_count; ++run) {
    const Int16* src = v + runs[run];
    UPSCALED_UNROLL(1)
    for (int k = 0; k < run_pairs; ++k, src += 2) {
      __m512i weights[kVectors];
      UPSCALED_UNROLL(4)
      for (int j = 0; j < kVectors; ++j) weights[j] = LoadWeights(w + j * 2 * kFloatLanes);
      w += kVectors * 2 * kFloatLanes;
      UPSCALED_UNROLL(32)
      for (int p = 0; p < kPixels; ++p) {
        const __m512i pair = BroadcastPair(src + p * kCell);
        UPSCALED_UNROLL(4)
        for (int j = 0; j < kVectors; ++j) AddProducts(pair, weights[j], sum[p][j]);
      }
    }
  }
}

// Adds the products of `runs` to the sums, or sets them to these plus `bias` if it is not null. Its
// own function: next to other code GCC would keep the sums in memory.
template <int kCell, int kVectors, int kPixels>
__attribute__((noinline)) void AddShortSum(const Int16* v, const int* runs, int run_count,
                                           int run_pairs, const Int16* __restrict w,
                                           const float* __restrict scale, const float* bias,
                                           Sums<kVectors, kPixels>& total) {
  __m512i sum[kPixels][kVectors];
  SumRuns<kCell>(v, runs, run_count, run_pairs, w, sum);
  UPSCALED_UNROLL(4)
  for (int j = 0; j < kVectors; ++j) {
    const __m512 factor = _mm512_load_ps(scale + j * kFloatLanes);
    const __m512 first = bias != nullptr ? _mm512_load_ps(bias + j * kFloatLanes) : factor;
    UPSCALED_UNROLL(32)
    for (int p = 0; p < kPixels; ++p) {
      float* const at = total.at[j][p];
      const __m512 before = bias != nullptr ? first : _mm512_load_ps(at);
      _mm512_store_ps(at, _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum[p][j]), factor, before));
    }
  }
}

UPSCALED_AVX512_INLINE __m256i* HalvesAt(float* p) { return reinterpret_cast<__m256i*>(p); }

// Stores 16 channels of `count` of the pixels as halves.
template <int kPixels>
UPSCALED_AVX512_INLINE void StoreHalves(const DirectInt16Args& args, int x, int channel,
                                        const __m512 (&v)[kPixels], int count) {
  const int plane = channel / kHalfLanes, lane = channel % kHalfLanes / 2;  // in floats
  const size_t offset = static_cast<size_t>(x) * args.dst_pixel_stride + lane;
  float* dst = args.dst_row + plane * args.dst_plane_stride + offset;
  const float* residual = args.residual_row == nullptr
                              ? nullptr
                              : args.residual_row + plane * args.residual_plane_stride + offset;
  const __m512 factor =
      args.residual_factors == nullptr
          ? _mm512_set1_ps(1)
          : _mm512_loadu_ps(args.residual_factors +
                            channel / kPlaneChannels * args.residual_factor_plane_stride);
  // The last plane's second half may be unused.
  const bool fills = lane == 0 && channel + kFloatLanes >= args.dst_channels;
  UPSCALED_UNROLL(32)
  for (int p = 0; p < kPixels; ++p, dst += args.dst_pixel_stride) {
    if (p == count) return;
    __m512 value = v[p];
    if (residual != nullptr) {
      value = _mm512_fmadd_ps(LoadHalves(residual), factor, value);
      residual += args.dst_pixel_stride;
    }
    const __m256i halves = _mm512_cvtps_ph(value, kRoundToNearest);
    if (fills) {
      _mm512_store_si512(dst, _mm512_zextsi256_si512(halves));
    } else {
      _mm256_store_si256(HalvesAt(dst), halves);
    }
  }
}

UPSCALED_AVX512_INLINE void StoreFloats(const DirectInt16Args& args, int x, int channel,
                                        const __m512* v, int count) {
  const int lanes = Min(kFloatLanes, args.dst_channels - channel);
  const auto mask = static_cast<__mmask16>((1u << lanes) - 1);
  float* dst = args.dst_row + channel + static_cast<size_t>(x) * args.dst_pixel_stride;
  UPSCALED_UNROLL(1)
  for (int p = 0; p < count; ++p, dst += args.dst_pixel_stride) {
    _mm512_mask_storeu_ps(dst, mask, v[p]);
  }
}

// Activates and stores a register tile.
template <int kVectors, int kPixels>
__attribute__((noinline)) void Finish(const DirectInt16Args& args, int x, int first_channel,
                                      const Sums<kVectors, kPixels>& sums) {
  constexpr int kAtOnce = kPixels % 7 == 0 ? 7 : kPixels;
  const int pixels = Min(kPixels, args.width_px - x);
  for (int j = 0; j < kVectors; ++j) {
    const int channel = first_channel + j * kFloatLanes;
    if (channel >= args.dst_channels) return;
    const __m512 slope = _mm512_load_ps(args.epilogue.slope + channel);
    for (int p = 0; p < pixels; p += kAtOnce) {
      __m512 v[kAtOnce];
      UPSCALED_UNROLL(16)
      for (int i = 0; i < kAtOnce; ++i) v[i] = _mm512_load_ps(sums.at[j][p + i]);
      Activate<kAtOnce>(args.epilogue, slope, v);
      const int count = Min(kAtOnce, pixels - p);
      if (args.dst_plane_stride > 0) {
        StoreHalves(args, x + p, channel, v, count);
      } else {
        StoreFloats(args, x + p, channel, v, count);
      }
    }
  }
}

// A register tile with one sum of products, kept in registers. Its own function as AddShortSum is.
template <int kCell, int kVectors, int kPixels>
__attribute__((noinline)) void ComputeAtOnce(const DirectInt16Args& args, int x, int first_channel,
                                             const Int16* __restrict w,
                                             const float* __restrict scale) {
  __m512i sum[kPixels][kVectors];
  SumRuns<kCell>(args.src + x * kCell, args.runs, args.run_count, args.run_pairs, w, sum);
  UPSCALED_UNROLL(4)
  for (int j = 0; j < kVectors; ++j) {
    const int channel = first_channel + j * kFloatLanes;
    if (channel >= args.dst_channels) return;
    const __m512 factor = _mm512_load_ps(scale + j * kFloatLanes);
    const __m512 bias = _mm512_load_ps(args.epilogue.bias + channel);
    __m512 v[kPixels];
    UPSCALED_UNROLL(32)
    for (int p = 0; p < kPixels; ++p) {
      v[p] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum[p][j]), factor, bias);
    }
    Activate<kPixels>(args.epilogue, _mm512_load_ps(args.epilogue.slope + channel), v);
    StoreHalves(args, x, channel, v, Min(kPixels, args.width_px - x));
  }
}

template <int kCell, int kVectors, int kPixels>
void Run(const DirectInt16Args& args) {
  constexpr int kGroup = kVectors * kFloatLanes;
  const int pair_weights = 2 * kGroup;
  const bool at_once = args.run_count <= args.runs_per_sum && args.dst_plane_stride > 0;
  for (int x = 0; x < args.width_px; x += kPixels) {
    const Int16* w = args.weights;
    const float* scale = args.scales;
    for (int channel = 0; channel < args.dst_channels; channel += kGroup) {
      Sums<kVectors, kPixels> total;
      const float* bias = args.epilogue.bias + channel;
      for (int first = 0; first < args.run_count; first += args.runs_per_sum) {
        const int count = Min(args.runs_per_sum, args.run_count - first);
        if (at_once) {
          ComputeAtOnce<kCell, kVectors, kPixels>(args, x, channel, w, scale);
        } else {
          AddShortSum<kCell>(args.src + x * kCell, args.runs + first, count, args.run_pairs, w,
                             scale, bias, total);
        }
        w += static_cast<size_t>(count) * args.run_pairs * pair_weights;
        scale += kGroup;
        bias = nullptr;
      }
      if (!at_once) Finish(args, x, channel, total);
    }
  }
}

UPSCALED_AVX512_INLINE bool AnyClipped(__m512i largest) {
  return _mm512_cmpge_epu16_mask(largest, _mm512_set1_epi16(kClipped)) != 0;
}

}  // namespace

const DirectInt16Variant kDirectVnni[] = {
    {&Run<32, 1, 28>, 1, 56}, {&Run<32, 2, 14>, 2, 56}, {&Run<32, 3, 9>, 3, 54}};
const DirectInt16Variant kDirectVnniRgb[] = {
    {&Run<3, 1, 28>, 1, 56}, {&Run<3, 2, 14>, 2, 56}, {&Run<3, 3, 9>, 3, 54}};

bool QuantizeHalves(const float* halves, int stride_px, int count, const float* scales,
                    int16_t* dst) {
  const __m512 low_scale = _mm512_load_ps(scales), high_scale = _mm512_load_ps(scales + 16);
  const size_t step = static_cast<size_t>(stride_px) * kPlaneFloats;
  __m512i largest = _mm512_setzero_si512();
  UPSCALED_UNROLL(2)
  for (int i = 0; i < count; ++i, halves += step, dst += kHalfLanes) {
    const __m512 low = _mm512_mul_ps(LoadHalves(halves), low_scale);
    const __m512 high = _mm512_mul_ps(LoadHalves(halves + kPlaneFloats / 2), high_scale);
    const __m512i n = _mm512_packs_epi32(_mm512_cvtps_epi32(low), _mm512_cvtps_epi32(high));
    _mm512_store_si512(dst, n);
    largest = _mm512_max_epu16(largest, _mm512_abs_epi16(n));
  }
  return AnyClipped(largest);
}

bool QuantizeFloats(const float* floats, int count, float scale, int16_t* dst) {
  __m512i largest = _mm512_setzero_si512();
  for (int i = 0; i < count; i += kFloatLanes) {
    const auto mask = static_cast<__mmask16>((1u << Min(kFloatLanes, count - i)) - 1);
    const __m512 v = _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, floats + i), _mm512_set1_ps(scale));
    const __m256i n = _mm512_cvtsepi32_epi16(_mm512_cvtps_epi32(v));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(dst + i), n);
    largest = _mm512_max_epu16(largest, _mm512_abs_epi16(_mm512_zextsi256_si512(n)));
  }
  return AnyClipped(largest);
}

}  // namespace upscaled::cpu
