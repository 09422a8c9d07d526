// Weights: [group of V vectors][source plane][ky][kx][channel of the plane][V * lanes], streamed
// once per P pixels of the row. A register tile is P adjacent output pixels x V vectors of
// channels; each step loads V weight vectors and broadcasts one input channel of P pixels from
// memory, so loads stay below multiplications. AVX-512 (32 registers): 14 x 2, or 28 x 1 and 9 x 3
// where the channel count does not divide; AVX2 and SSE4 (16 registers): 6 x 2 and 12 x 1. All
// channels of P pixels come one after the other, so these pixels are read once. Meanwhile the next
// pixels are fetched, and first of all the lines of the result and of what is added to it. A last
// plane goes without missing channels, in fours. The last tile of a row computes P pixels and
// stores those that exist; it may read (never use) memory right of the row.
#include "engine/backends/cpu/kernels/direct.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/backends/cpu/kernels/direct.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include "engine/backends/cpu/kernels/epilogue-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace upscaled::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::CappedTag<float, kPlaneChannels>;
using Vec = hn::Vec<Tag>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(Tag()));

#if HWY_TARGET <= HWY_AVX3
constexpr int kTilePx[] = {28, 14, 9};  // by vectors at a time, less one
#else
constexpr int kTilePx[] = {12, 6, 4};
#endif
constexpr int kAnyTilePx = 4;

// Where tap number `tap` of a tile begins to fetch a vector of what is added to the results, then
// one of the results: rows unused for long, gone from the core's cache. `rest`: for taps after
// those.
template <int kVectors>
const float* LinesToFetch(const DirectArgs& args, int x, int first_channel, int tap,
                          const float* rest) {
  const bool residual = args.residual_row != nullptr && tap < kVectors;
  const int vector = args.residual_row != nullptr && !residual ? tap - kVectors : tap;
  if (vector >= kVectors) return rest;
  const int plane = (first_channel + vector * kLanes) / kPlaneChannels;
  const size_t offset = static_cast<size_t>(x) * args.dst_pixel_stride;
  return residual ? args.residual_row + plane * args.residual_plane_stride + offset
                  : args.dst_row + plane * args.dst_plane_stride + offset;
}

// kChannels per plane and pixel stride in floats at compile time, or 0: as args say.
template <int kChannels, int kStride, int kVectors, int kPixels>
HWY_NOINLINE void Tile(const DirectArgs& args, int x, const float* HWY_RESTRICT w,
                       int first_channel) {
  const Tag d;
  const int channels = kChannels > 0 ? kChannels : args.src_channels;
  const int pixel_stride = kChannels > 0 ? kChannels : args.src_pixel_stride;
  constexpr int kStep = kChannels == kPlaneChannels ? 4 : kChannels > 0 ? kChannels : 1;
  const size_t step = static_cast<size_t>(kStride > 0 ? kStride : args.stride_px) * pixel_stride;
  Vec sum[kVectors][kPixels];
  HWY_UNROLL(4)
  for (int j = 0; j < kVectors; ++j) {
    const Vec bias = hn::Load(d, args.epilogue.bias + first_channel + j * kLanes);
    HWY_UNROLL(32)
    for (int p = 0; p < kPixels; ++p) sum[j][p] = bias;
  }
  int tap = 0;
  for (int plane = 0; plane < args.src_planes; ++plane) {
    const bool last = kChannels == kPlaneChannels && plane + 1 == args.src_planes;
    const int count = last ? args.last_plane_channels : channels;
    for (int ky = 0; ky < args.kernel_px; ++ky) {
      const float* HWY_RESTRICT src = args.src_rows[ky] + plane * args.src_plane_stride + x * step;
      for (int kx = 0; kx < args.kernel_px; ++kx, src += pixel_stride) {
        const float* next_src = src + kPixels * step;
        const float* fetched = LinesToFetch<kVectors>(args, x, first_channel, tap++, next_src);
        for (int first = 0; first < count; first += kStep) {
          HWY_UNROLL(4)
          for (int c = first; c < first + kStep; ++c) {
            if (kChannels == kPlaneChannels) {
              __builtin_prefetch(next_src, 0, 3);
              __builtin_prefetch(fetched, 0, 3);
              next_src += step;
              fetched += args.dst_pixel_stride;
            }
            Vec weight[kVectors];
            HWY_UNROLL(4)
            for (int j = 0; j < kVectors; ++j) weight[j] = hn::Load(d, w + j * kLanes);
            w += kVectors * kLanes;
            HWY_UNROLL(32)
            for (int p = 0; p < kPixels; ++p) {
              const Vec value = hn::Set(d, src[p * step + c]);
              HWY_UNROLL(4)
              for (int j = 0; j < kVectors; ++j) {
                sum[j][p] = hn::MulAdd(value, weight[j], sum[j][p]);
              }
            }
          }
        }
        w += static_cast<size_t>(channels - count) * kVectors * kLanes;
      }
    }
  }
  HWY_UNROLL(4)
  for (int j = 0; j < kVectors; ++j) {
    const int channel = first_channel + j * kLanes;
    const Vec slope = hn::Load(d, args.epilogue.slope + channel);
    Activate<kPixels>(d, args.epilogue, slope, sum[j]);
    const int plane = args.dst_plane_stride > 0 ? channel / kPlaneChannels : 0;
    float* dst = args.dst_row + plane * args.dst_plane_stride + (channel - plane * kPlaneChannels) +
                 static_cast<size_t>(x) * args.dst_pixel_stride;
    const int lanes = HWY_MIN(kLanes, args.dst_channels - channel);
    const int pixels = HWY_MIN(kPixels, args.width_px - x);
    if (args.residual_row != nullptr && lanes == kLanes) {
      const float* residual = args.residual_row + plane * args.residual_plane_stride +
                              (channel - plane * kPlaneChannels) +
                              static_cast<size_t>(x) * args.dst_pixel_stride;
      const Vec factor =
          args.residual_factors == nullptr
              ? hn::Set(d, 1.0f)
              : hn::LoadU(d, args.residual_factors + plane * args.residual_factor_plane_stride +
                                 (channel - plane * kPlaneChannels));
      HWY_UNROLL(32)
      for (int p = 0; p < kPixels; ++p) {
        if (p >= pixels) continue;
        const Vec value = hn::LoadU(d, residual + p * args.dst_pixel_stride);
        sum[j][p] = hn::MulAdd(value, factor, sum[j][p]);
      }
    }
    HWY_UNROLL(32)
    for (int p = 0; p < kPixels; ++p) {
      if (p >= pixels) continue;
      if (lanes == kLanes) {
        hn::StoreU(sum[j][p], d, dst + p * args.dst_pixel_stride);
      } else {
        HWY_ALIGN float all[kLanes];
        hn::Store(sum[j][p], d, all);
        for (int i = 0; i < lanes; ++i) dst[p * args.dst_pixel_stride + i] = all[i];
      }
    }
  }
}

template <int kChannels, int kStride, int kVectors, int kPixels>
void Row(const DirectArgs& args) {
  constexpr int kGroup = kVectors * kLanes;
  const size_t group_weights = static_cast<size_t>(args.src_planes) * args.kernel_px *
                               args.kernel_px * args.src_channels * kGroup;
  for (int x = 0; x < args.width_px; x += kPixels) {
    const float* w = args.weights;
    for (int channel = 0; channel < args.dst_channels; channel += kGroup, w += group_weights) {
      Tile<kChannels, kStride, kVectors, kPixels>(args, x, w, channel);
    }
  }
}

template <int kChannels, int kStride, int kVectors>
constexpr DirectVariant kVariant = {&Row<kChannels, kStride, kVectors, kTilePx[kVectors - 1]>,
                                    kVectors, kTilePx[kVectors - 1]};

constexpr DirectVariants kDirectVariants = {
    {kVariant<16, 1, 1>, kVariant<16, 1, 2>, kVariant<16, 1, 3>},
    {kVariant<16, 2, 1>, kVariant<16, 2, 2>, kVariant<16, 2, 3>},
    {kVariant<3, 1, 1>, kVariant<3, 1, 2>, kVariant<3, 1, 3>},
    {&Row<0, 0, 1, kAnyTilePx>, 1, kAnyTilePx},
};

}  // namespace HWY_NAMESPACE
}  // namespace upscaled::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>
#include <utility>

#include "engine/backends/cpu/kernels/convert.h"
#include "engine/backends/cpu/kernels/isa_dispatch.h"

namespace upscaled::cpu {
namespace {

const DirectVariants* VariantsFor(Isa isa) { UPSCALED_RETURN_ADDRESS_FOR(isa, kDirectVariants) }

bool Interleaved(int channels) { return channels <= kMaxInterleavedChannels; }

// How many vectors of output channels (1 to 3) a register tile takes, of `vectors` in all: two
// reload the fewest values; others where two would compute missing channels.
int VectorsAtATime(int vectors) {
  if (vectors % 2 == 0) return 2;
  if (vectors % 3 == 0) return 3;
  return vectors == 1 ? 1 : 2;
}

DirectVariant ChooseVariant(const Layer& layer, Isa isa) {
  const DirectVariants& variants = *VariantsFor(isa);
  const int lanes = VectorLanes(isa);
  const int vectors = VectorsAtATime((layer.out_channels + lanes - 1) / lanes);
  if (Interleaved(layer.in_channels)) {
    const bool rgb = layer.in_channels == 3 && layer.stride_px == 1;
    return rgb ? variants.rgb[vectors - 1] : variants.any;
  }
  if (layer.stride_px == 1) return variants.blocked[vectors - 1];
  return layer.stride_px == 2 ? variants.blocked_s2[vectors - 1] : variants.any;
}

DirectVariant ChooseFp16Variant([[maybe_unused]] const Layer& layer) {
#ifdef UPSCALED_FP16
  const DirectFp16Variants& variants = kDirectFp16Variants;
  if (Interleaved(layer.in_channels)) {
    const bool rgb = layer.in_channels == 3 && layer.stride_px == 1;
    return rgb ? variants.rgb[layer.out_channels > kPlaneChannels] : variants.any_image;
  }
  const bool several = layer.out_channels > kHalfPlaneChannels;
  if (layer.stride_px == 1) return variants.blocked[several];
  return layer.stride_px == 2 ? variants.blocked_s2[several] : variants.any;
#else
  return {};
#endif
}

class DirectKernel final : public LayerKernel {
 public:
  DirectKernel(const Layer& layer, Isa isa, Precision precision)
      : kernel_px_(layer.kernel_px),
        stride_px_(layer.stride_px),
        padding_px_(layer.padding_px),
        crop_px_(layer.crop_px),
        reads_factors_(precision == Precision::kExact),
        convolution_(layer, isa, precision) {}

  void Run(std::span<const Tensor> src, const Tensor& dst, const Rect& rows,
           float* scratch) const override {
    const bool scaled = src[0].factors != nullptr;
    if (scaled) convolution_.ScaleWeights(src[0], scratch);
    const float* const weights = scaled ? scratch : convolution_.weights();
    const float* src_rows[DirectArgs::kMaxKernel];
    for (int y = rows.y; y < rows.bottom(); ++y) {
      for (int k = 0; k < kernel_px_; ++k) {
        src_rows[k] =
            src[0].At(y * stride_px_ - padding_px_ + k, rows.x * stride_px_ - padding_px_);
      }
      convolution_.RunRow(src[0], src_rows, weights, dst, dst.At(y, rows.x), 1, rows.width,
                          ResidualRow::At(src, y + crop_px_, rows.x + crop_px_));
    }
  }

  Margin margin() const override { return {padding_px_, padding_px_}; }
  size_t WeightBytes() const override { return convolution_.WeightBytes(); }
  std::optional<size_t> FactorScratchFloats() const override {
    if (!reads_factors_) return std::nullopt;
    return convolution_.weight_count();
  }

 private:
  const int kernel_px_;
  const int stride_px_;
  const int padding_px_;
  const int crop_px_;
  const bool reads_factors_;
  const DirectConvolution convolution_;
};

}  // namespace

DirectConvolution::DirectConvolution(const Layer& layer, Isa isa, Precision precision)
    : variant_(precision == Precision::kFast ? ChooseFp16Variant(layer)
                                             : ChooseVariant(layer, isa)),
      kernel_px_(layer.kernel_px),
      stride_px_(layer.stride_px),
      dst_plane_channels_(precision == Precision::kFast ? kHalfPlaneChannels : kPlaneChannels),
      src_plane_channels_(Interleaved(layer.in_channels) ? layer.in_channels : dst_plane_channels_),
      group_(variant_.out_vectors *
             (precision == Precision::kFast ? kHalfPlaneChannels : VectorLanes(isa))),
      epilogue_(layer, RoundUp(RoundUp(layer.out_channels, dst_plane_channels_), group_)),
      weights_(PackWeights(layer)) {}

void DirectConvolution::ScaleWeights(const Tensor& src, float* scaled) const {
  const float* w = weights_.data();
  const float* const end = w + weights_.size();
  while (w < end) {  // a group of outputs
    for (int plane = 0; plane < src.planes(); ++plane) {
      const float* const factors = src.factors + plane * src.factor_plane_stride;
      for (int tap = 0; tap < kernel_px_ * kernel_px_; ++tap) {
        for (int c = 0; c < src_plane_channels_; ++c, w += group_, scaled += group_) {
          for (int o = 0; o < group_; ++o) scaled[o] = w[o] * factors[c];
        }
      }
    }
  }
}

void DirectConvolution::RunRow(const Tensor& src, const float* const* src_rows,
                               const float* weights, const Tensor& dst, float* dst_row,
                               int dst_step_px, int width_px, const ResidualRow& residual) const {
  DirectArgs args{};
  std::copy_n(src_rows, kernel_px_, args.src_rows);
  args.src_planes = src.planes();
  args.src_channels = src_plane_channels_;
  const int behind_last = src.planes() * src_plane_channels_ - src.channels;
  args.last_plane_channels = src_plane_channels_ - behind_last / 4 * 4;
  args.src_pixel_stride = src.pixel_stride;
  args.src_plane_stride = src.plane_stride;
  args.kernel_px = kernel_px_;
  args.stride_px = stride_px_;
  args.dst_row = dst_row;
  const bool fast = dst_plane_channels_ == kHalfPlaneChannels;
  const bool blocked = fast ? dst.half : dst.blocked();
  args.dst_channels = blocked ? RoundUp(dst.channels, dst_plane_channels_) : dst.channels;
  args.dst_pixel_stride = dst.pixel_stride * dst_step_px;
  args.dst_plane_stride = blocked ? dst.plane_stride : 0;
  args.residual_row = residual.data;
  args.residual_plane_stride = residual.plane_stride;
  args.residual_factors = residual.factors;
  args.residual_factor_plane_stride = residual.factor_plane_stride;
  args.width_px = width_px;
  args.weights = weights;
  args.epilogue = epilogue_.args();
  variant_.run(args);
}

HugeBuffer DirectConvolution::PackWeights(const Layer& layer) const {
  const int planes = (layer.in_channels + src_plane_channels_ - 1) / src_plane_channels_;
  const int padded_out = RoundUp(RoundUp(layer.out_channels, dst_plane_channels_), group_);
  const size_t taps = static_cast<size_t>(kernel_px_) * kernel_px_;
  const size_t floats = padded_out * planes * src_plane_channels_ * taps;
  if (layer.weights.empty()) return HugeBuffer(variant_.half_weights ? floats / 2 : floats);
  HugeBuffer packed(floats);
  std::fill_n(packed.data(), packed.size(), 0.0f);
  const float* w = layer.weights.data();
  for (int o = 0; o < layer.out_channels; ++o) {
    for (int i = 0; i < layer.in_channels; ++i) {
      for (size_t tap = 0; tap < taps; ++tap) {
        const size_t panel = (o / group_ * planes + i / src_plane_channels_) * taps + tap;
        const size_t step = panel * src_plane_channels_ + i % src_plane_channels_;
        packed.data()[step * group_ + o % group_] = *w++;
      }
    }
  }
  return variant_.half_weights ? ToHalves(packed, Isa::kAvx512) : std::move(packed);
}

bool DirectSupports(const Layer& layer) {
  return layer.op == Op::kConv && layer.kernel_px <= DirectArgs::kMaxKernel;
}

std::unique_ptr<LayerKernel> MakeDirect(const Layer& layer, Isa isa) {
  return std::make_unique<DirectKernel>(layer, isa, Precision::kExact);
}

bool DirectFp16Supports(const Layer& layer) {
  return DirectSupports(layer) &&
         !(Interleaved(layer.in_channels) && Interleaved(layer.out_channels));
}

std::unique_ptr<LayerKernel> MakeDirectFp16(const Layer& layer, Isa isa) {
  return std::make_unique<DirectKernel>(layer, isa, Precision::kFast);
}

}  // namespace upscaled::cpu
#endif  // HWY_ONCE
