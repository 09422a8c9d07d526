// As direct.cc, in halves: planes and vectors of 32 channels.
//
// A sum of a few dozen products is made in fp16 and then added to the pixel's sum in fp32, on the
// stack: a whole sum in fp16 would lose two of its eleven bits, and last layers cannot spare them.
// From an image, with values in float, all is done in fp32. Results are halves in blocked tensors
// and floats in interleaved ones.
#include "engine/backends/cpu/kernels/args.h"
#include "engine/backends/cpu/kernels/avx512-inl.h"

namespace upscaled::cpu {
namespace {

// Halves of `kCount` pixels of 32 channels from `channel` on.
template <int kVectors, int kCount>
UPSCALED_AVX512_INLINE void StoreHalves(const DirectArgs& args, int x, int channel,
                                        const __m512 (&sums)[kVectors][kCount]) {
  float* dst = args.dst_row + channel / kHalfLanes * args.dst_plane_stride +
               static_cast<size_t>(x) * args.dst_pixel_stride;
  const int pixels = Min(kCount, args.width_px - x);
  UPSCALED_UNROLL(32)
  for (int p = 0; p < kCount; ++p) {
    const __m512 high = kVectors == 2 ? sums[kVectors - 1][p] : _mm512_setzero_ps();
    if (p < pixels) _mm512_store_ph(dst + p * args.dst_pixel_stride, ToHalves(sums[0][p], high));
  }
}

// Floats of `kCount` pixels of an interleaved tensor.
template <int kCount>
UPSCALED_AVX512_INLINE void StoreFloats(const DirectArgs& args, int x, int channel,
                                        const __m512 (&sums)[kCount]) {
  const int lanes = Min(kFloatLanes, args.dst_channels - channel);
  if (lanes <= 0) return;
  const auto mask = static_cast<__mmask16>((1u << lanes) - 1);
  float* dst = args.dst_row + channel + static_cast<size_t>(x) * args.dst_pixel_stride;
  const int pixels = Min(kCount, args.width_px - x);
  UPSCALED_UNROLL(32)
  for (int p = 0; p < kCount; ++p) {
    if (p < pixels) _mm512_mask_storeu_ps(dst + p * args.dst_pixel_stride, mask, sums[p]);
  }
}

// Activates and stores `kVectors` (1 or 2) x 16 channels of `kCount` pixels.
template <int kVectors, int kCount>
UPSCALED_AVX512_INLINE void Finish(const DirectArgs& args, int x, int channel,
                                   __m512 (&sums)[kVectors][kCount]) {
  if (channel >= args.dst_channels) return;  // beyond the last plane
  UPSCALED_UNROLL(2)
  for (int j = 0; j < kVectors; ++j) {
    const float* slope = args.epilogue.slope + channel + j * kFloatLanes;
    Activate<kCount>(args.epilogue, _mm512_loadu_ps(slope), sums[j]);
  }
  if (args.dst_plane_stride > 0) return StoreHalves(args, x, channel, sums);
  UPSCALED_UNROLL(2)
  for (int j = 0; j < kVectors; ++j) StoreFloats(args, x, channel + j * kFloatLanes, sums[j]);
}

// The sums of one register tile while it is computed, in fp32.
template <int kVectors, int kPixels>
struct Sums {
  alignas(64) float at[kVectors][kPixels][2][kFloatLanes];
};

// Adds the products of `count` planes of 32 channels, `src_stride` apart, to the sums. Pixels are
// `step` apart. Its own function: next to other code GCC would keep the sums in memory.
template <int kVectors, int kPixels>
__attribute__((noinline)) void AddShortSum(const Half* __restrict src, size_t src_stride, int count,
                                           size_t step, const Half* __restrict w,
                                           Sums<kVectors, kPixels>& total) {
  __m512h sum[kVectors][kPixels];
  UPSCALED_UNROLL(4)
  for (int j = 0; j < kVectors; ++j) {
    UPSCALED_UNROLL(32)
    for (int p = 0; p < kPixels; ++p) sum[j][p] = _mm512_setzero_ph();
  }
  for (; count > 0; --count, src += src_stride) {
    UPSCALED_UNROLL(2)
    for (int c = 0; c < kHalfLanes; ++c) {
      __m512h weight[kVectors];
      UPSCALED_UNROLL(4)
      for (int j = 0; j < kVectors; ++j) weight[j] = _mm512_load_ph(w + j * kHalfLanes);
      w += kVectors * kHalfLanes;
      UPSCALED_UNROLL(32)
      for (int p = 0; p < kPixels; ++p) {
        UPSCALED_UNROLL(4)
        for (int j = 0; j < kVectors; ++j) {
          MulAddBroadcast(src + p * step + c, weight[j], sum[j][p]);
        }
      }
    }
  }
  UPSCALED_UNROLL(4)
  for (int j = 0; j < kVectors; ++j) {
    UPSCALED_UNROLL(32)
    for (int p = 0; p < kPixels; ++p) {
      float* low = total.at[j][p][0];
      float* high = total.at[j][p][1];
      _mm512_store_ps(low, _mm512_add_ps(_mm512_load_ps(low), LowFloats(sum[j][p])));
      _mm512_store_ps(high, _mm512_add_ps(_mm512_load_ps(high), HighFloats(sum[j][p])));
    }
  }
}

// From a blocked tensor.
template <int kStride, int kVectors, int kPixels>
void Tile(const DirectArgs& args, int x, const Half* w, int first_channel) {
  Sums<kVectors, kPixels> total;
  for (int j = 0; j < kVectors; ++j) {
    const float* bias = args.epilogue.bias + first_channel + j * kHalfLanes;
    for (int p = 0; p < kPixels; ++p) {
      _mm512_store_ps(total.at[j][p][0], _mm512_loadu_ps(bias));
      _mm512_store_ps(total.at[j][p][1], _mm512_loadu_ps(bias + kFloatLanes));
    }
  }
  constexpr size_t kTapWeights = size_t{kHalfLanes} * kVectors * kHalfLanes;
  const size_t step = static_cast<size_t>(kStride > 0 ? kStride : args.stride_px) * kHalfLanes;
  const size_t plane_stride = 2 * args.src_plane_stride;
  // A short sum is a row of taps in one plane or, of 1x1 kernels, two planes.
  const int planes_at_once = args.kernel_px == 1 ? 2 : 1;
  for (int plane = 0; plane < args.src_planes; plane += planes_at_once) {
    for (int ky = 0; ky < args.kernel_px; ++ky) {
      const Half* src =
          reinterpret_cast<const Half*>(args.src_rows[ky]) + plane * plane_stride + x * step;
      const int planes = Min(planes_at_once, args.src_planes - plane);
      const int count = args.kernel_px == 1 ? planes : args.kernel_px;
      AddShortSum(src, args.kernel_px == 1 ? plane_stride : kHalfLanes, count, step, w, total);
      w += count * kTapWeights;
    }
  }
  constexpr int kAtOnce = kPixels % 7 == 0 ? 7 : kPixels;
  for (int j = 0; j < kVectors; ++j) {
    for (int p = 0; p < kPixels; p += kAtOnce) {
      __m512 part[2][kAtOnce];
      UPSCALED_UNROLL(8)
      for (int i = 0; i < kAtOnce; ++i) {
        part[0][i] = _mm512_load_ps(total.at[j][p + i][0]);
        part[1][i] = _mm512_load_ps(total.at[j][p + i][1]);
      }
      Finish(args, x + p, first_channel + j * kHalfLanes, part);
    }
  }
}

// From an image: kChannels at compile time, or 0: as args say. Computes the first kVectors (1 or
// 2) x 16 of a plane's channels; the others are zero.
template <int kChannels, int kStride, int kVectors, int kPixels>
__attribute__((noinline)) void ImageTile(const DirectArgs& args, int x, const float* __restrict w,
                                         int first_channel) {
  const int channels = kChannels > 0 ? kChannels : args.src_channels;
  const size_t step = static_cast<size_t>(kStride > 0 ? kStride : args.stride_px) * channels;
  __m512 sum[kVectors][kPixels];
  UPSCALED_UNROLL(2)
  for (int j = 0; j < kVectors; ++j) {
    const __m512 bias = _mm512_loadu_ps(args.epilogue.bias + first_channel + j * kFloatLanes);
    UPSCALED_UNROLL(32)
    for (int p = 0; p < kPixels; ++p) sum[j][p] = bias;
  }
  for (int ky = 0; ky < args.kernel_px; ++ky) {
    const float* __restrict src = args.src_rows[ky] + x * step;
    for (int i = 0; i < args.kernel_px * channels; ++i) {
      __m512 weight[kVectors];
      UPSCALED_UNROLL(2)
      for (int j = 0; j < kVectors; ++j) weight[j] = _mm512_load_ps(w + j * kFloatLanes);
      w += 2 * kFloatLanes;
      UPSCALED_UNROLL(32)
      for (int p = 0; p < kPixels; ++p) {
        const __m512 value = _mm512_set1_ps(src[p * step + i]);
        UPSCALED_UNROLL(2)
        for (int j = 0; j < kVectors; ++j) sum[j][p] = _mm512_fmadd_ps(value, weight[j], sum[j][p]);
      }
    }
  }
  Finish(args, x, first_channel, sum);
}

template <int kStride, int kVectors, int kPixels>
void Row(const DirectArgs& args) {
  constexpr int kGroup = kVectors * kHalfLanes;
  const size_t group_weights =
      static_cast<size_t>(args.src_planes) * args.kernel_px * args.kernel_px * kHalfLanes * kGroup;
  const Half* w = reinterpret_cast<const Half*>(args.weights);
  for (int channel = 0; channel < args.dst_channels; channel += kGroup, w += group_weights) {
    for (int x = 0; x < args.width_px; x += kPixels) {
      Tile<kStride, kVectors, kPixels>(args, x, w, channel);
    }
  }
}

template <int kChannels, int kStride, int kVectors, int kPixels>
void ImageRow(const DirectArgs& args) {
  const size_t group_weights =
      static_cast<size_t>(args.kernel_px) * args.kernel_px * args.src_channels * kHalfLanes;
  const float* w = args.weights;
  for (int channel = 0; channel < args.dst_channels; channel += kHalfLanes, w += group_weights) {
    for (int x = 0; x < args.width_px; x += kPixels) {
      ImageTile<kChannels, kStride, kVectors, kPixels>(args, x, w, channel);
    }
  }
}

template <int kStride, int kVectors, int kPixels>
constexpr DirectVariant kVariant = {&Row<kStride, kVectors, kPixels>, kVectors, kPixels,
                                    /*half=*/true};

template <int kChannels, int kStride, int kVectors, int kPixels>
constexpr DirectVariant kImageVariant = {&ImageRow<kChannels, kStride, kVectors, kPixels>, 1,
                                         kPixels};

}  // namespace

const DirectFp16Variants kDirectFp16Variants = {
    {kVariant<1, 1, 28>, kVariant<1, 2, 14>},
    {kVariant<2, 1, 28>, kVariant<2, 2, 14>},
    kVariant<0, 1, 4>,
    {kImageVariant<3, 1, 1, 28>, kImageVariant<3, 1, 2, 14>},
    kImageVariant<0, 0, 2, 4>,
};

}  // namespace upscaled::cpu
