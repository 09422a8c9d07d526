// Weights: [plane][ky][kx][16 channels]. A register tile is P adjacent output pixels of a vector of
// channels; each tap loads one vector of weights, then multiplies a vector of each of P pixels from
// memory: one load for each multiply-add, as many as a core does at once. P sums (12 of AVX-512's
// 32 registers, 8 of 16) are enough to hide a multiply-add's latency. The last tile of a row
// computes P pixels and stores the existing ones; it may read (never use) memory right of the row.
#include "engine/backends/cpu/kernels/depthwise.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/backends/cpu/kernels/depthwise.cc"
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

#if HWY_TARGET <= HWY_AVX3
constexpr int kTilePx = 12;
#else
constexpr int kTilePx = 8;
#endif
constexpr int kStridedTilePx = 4;

// Channels from `lane` on of a plane. kStride in pixels at compile time, or 0: as args say.
template <int kStride, int kPixels>
HWY_INLINE void Tile(const DepthwiseArgs& args, int x, int plane, int lane) {
  const Tag d;
  const size_t step = static_cast<size_t>(kStride > 0 ? kStride : args.stride_px) * kPlaneChannels;
  const size_t channel = static_cast<size_t>(plane) * kPlaneChannels + lane;
  const int taps = args.kernel_px * args.kernel_px;
  const float* HWY_RESTRICT w =
      args.weights + static_cast<size_t>(plane) * taps * kPlaneChannels + lane;
  const Vec bias = hn::Load(d, args.epilogue.bias + channel);
  Vec sum[kPixels];
  HWY_UNROLL(16)
  for (int p = 0; p < kPixels; ++p) sum[p] = bias;
  for (int ky = 0; ky < args.kernel_px; ++ky) {
    const float* HWY_RESTRICT src =
        args.src_rows[ky] + plane * args.src_plane_stride + x * step + lane;
    for (int kx = 0; kx < args.kernel_px; ++kx, src += kPlaneChannels, w += kPlaneChannels) {
      const Vec weight = hn::Load(d, w);
      HWY_UNROLL(16)
      for (int p = 0; p < kPixels; ++p) {
        sum[p] = hn::MulAdd(hn::LoadU(d, src + p * step), weight, sum[p]);
      }
    }
  }
  Activate<kPixels>(d, args.epilogue, hn::Load(d, args.epilogue.slope + channel), sum);
  float* HWY_RESTRICT dst =
      args.dst_row + plane * args.dst_plane_stride + static_cast<size_t>(x) * kPlaneChannels + lane;
  const int pixels = HWY_MIN(kPixels, args.width_px - x);
  HWY_UNROLL(16)
  for (int p = 0; p < kPixels; ++p) {
    if (p < pixels) hn::StoreU(sum[p], d, dst + p * kPlaneChannels);
  }
}

template <int kStride, int kPixels>
void DepthwiseRow(const DepthwiseArgs& args) {
  constexpr int kLanes = static_cast<int>(hn::MaxLanes(Tag()));
  for (int plane = 0; plane < args.planes; ++plane) {
    for (int x = 0; x < args.width_px; x += kPixels) {
      for (int lane = 0; lane < kPlaneChannels; lane += kLanes) {
        Tile<kStride, kPixels>(args, x, plane, lane);
      }
    }
  }
}

constexpr DepthwiseVariants kDepthwiseVariants = {&DepthwiseRow<1, kTilePx>,
                                                  &DepthwiseRow<0, kStridedTilePx>};

}  // namespace HWY_NAMESPACE
}  // namespace upscaled::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>

#include "engine/backends/cpu/kernels/direct.h"
#include "engine/backends/cpu/kernels/epilogue.h"
#include "engine/backends/cpu/kernels/isa_dispatch.h"
#include "engine/model/grouped_conv.h"

namespace upscaled::cpu {
namespace {

const DepthwiseVariants* DepthwiseVariantsFor(Isa isa) {
  UPSCALED_RETURN_ADDRESS_FOR(isa, kDepthwiseVariants)
}

class DepthwiseKernel final : public LayerKernel {
 public:
  DepthwiseKernel(const Layer& layer, Isa isa)
      : kernel_px_(layer.kernel_px),
        stride_px_(layer.stride_px),
        padding_px_(layer.padding_px),
        run_row_(stride_px_ == 1 ? DepthwiseVariantsFor(isa)->plain
                                 : DepthwiseVariantsFor(isa)->strided),
        epilogue_(layer, RoundUp(layer.out_channels, kPlaneChannels)),
        weights_(PackWeights(layer)) {}

  void Run(std::span<const Tensor> src, const Tensor& dst, const Rect& rows,
           float* /*scratch*/) const override {
    DepthwiseArgs args{};
    args.src_plane_stride = src[0].plane_stride;
    args.planes = dst.planes();
    args.kernel_px = kernel_px_;
    args.stride_px = stride_px_;
    args.dst_plane_stride = dst.plane_stride;
    args.width_px = rows.width;
    args.weights = weights_.data();
    args.epilogue = epilogue_.args();
    for (int y = rows.y; y < rows.bottom(); ++y) {
      for (int k = 0; k < kernel_px_; ++k) {
        args.src_rows[k] =
            src[0].At(y * stride_px_ - padding_px_ + k, rows.x * stride_px_ - padding_px_);
      }
      args.dst_row = dst.At(y, rows.x);
      run_row_(args);
    }
  }

  Margin margin() const override { return {padding_px_, padding_px_}; }
  size_t WeightBytes() const override { return weights_.bytes(); }

 private:
  static HugeBuffer PackWeights(const Layer& layer) {
    const int taps = layer.kernel_px * layer.kernel_px;
    HugeBuffer packed(static_cast<size_t>(RoundUp(layer.out_channels, kPlaneChannels)) * taps);
    if (layer.weights.empty()) return packed;
    std::fill_n(packed.data(), packed.size(), 0.0f);
    for (int c = 0; c < layer.out_channels; ++c) {
      for (int tap = 0; tap < taps; ++tap) {
        const size_t vector = static_cast<size_t>(c / kPlaneChannels) * taps + tap;
        packed.data()[vector * kPlaneChannels + c % kPlaneChannels] =
            layer.weights[static_cast<size_t>(c) * taps + tap];
      }
    }
    return packed;
  }

  const int kernel_px_;
  const int stride_px_;
  const int padding_px_;
  void (*const run_row_)(const DepthwiseArgs& args);
  const Epilogue epilogue_;
  const HugeBuffer weights_;
};

}  // namespace

bool DepthwiseSupports(const Layer& layer) {
  return IsDepthwise(layer) && layer.in_channels > kMaxInterleavedChannels &&
         layer.kernel_px <= DepthwiseArgs::kMaxKernel;
}

std::unique_ptr<LayerKernel> MakeDepthwise(const Layer& layer, Isa isa) {
  return std::make_unique<DepthwiseKernel>(layer, isa);
}

bool GroupedSupports(const Layer& layer) {
  return layer.op == Op::kGroupedConv && layer.kernel_px <= DirectArgs::kMaxKernel;
}

std::unique_ptr<LayerKernel> MakeGrouped(const Layer& layer, Isa isa) {
  return MakeDirect(AsDenseConv(layer), isa);
}

}  // namespace upscaled::cpu
#endif  // HWY_ONCE
