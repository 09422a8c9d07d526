#include "engine/backends/cpu/kernels/multiply_half.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/backends/cpu/kernels/multiply_half.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include "engine/backends/cpu/kernels/epilogue-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace upscaled::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::CappedTag<float, kPlaneChannels>;
using HalfTag = hn::Rebind<hwy::float16_t, Tag>;
using Vec = hn::Vec<Tag>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(Tag()));

// 16 channels of `pixels` pixels from `channel` of the layer on.
void Multiply(const MultiplyArgs& args, int channel, size_t pixels) {
  const Tag d;
  const HalfTag h;
  for (int lane = 0; lane < kPlaneChannels; lane += kLanes) {
    const Vec slope = hn::Load(d, args.epilogue.slope + channel + lane);
    Vec factor = hn::Zero(d);
    if (args.factors != nullptr) factor = hn::Load(d, args.factors + lane);
    const auto* a = reinterpret_cast<const hwy::float16_t*>(args.a) + lane;
    const auto* b = reinterpret_cast<const hwy::float16_t*>(args.b) + lane;
    auto* dst = reinterpret_cast<hwy::float16_t*>(args.dst) + lane;
    for (size_t i = 0; i < pixels * kHalfPlaneChannels; i += kHalfPlaneChannels) {
      if (args.factors == nullptr) factor = hn::PromoteTo(d, hn::Load(h, b + i));
      Vec product = hn::Mul(hn::PromoteTo(d, hn::Load(h, a + i)), factor);
      product =
          hn::MulAdd(product, hn::Zero(d), product);  // of infinity NaN, which activations keep
      Activate<1>(d, args.epilogue, slope, &product);
      hn::Store(hn::DemoteTo(h, product), h, dst + i);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace upscaled::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "engine/backends/cpu/kernels/epilogue.h"
#include "engine/backends/cpu/kernels/isa_dispatch.h"
#include "engine/base/check.h"
#include "engine/base/int_math.h"

namespace upscaled::cpu {
namespace {

using MultiplyFunction = void (*)(const MultiplyArgs& args, int channel, size_t pixels);

MultiplyFunction FunctionFor(Isa isa) { UPSCALED_RETURN_ADDRESS_FOR(isa, Multiply) }

class MultiplyHalfKernel final : public LayerKernel {
 public:
  MultiplyHalfKernel(const Layer& layer, Isa isa)
      : multiply_(FunctionFor(isa)),
        epilogue_(layer, RoundUp(layer.out_channels, kHalfPlaneChannels)) {}

  void Run(std::span<const Tensor> src, const Tensor& dst, const Rect& rows,
           float* /*scratch*/) const override {
    constexpr int kHalfPixel = kPlaneFloats / 2;  // of 16 channels, in floats
    const bool scales = !src[1].half;
    UPSCALED_CHECK(src[1].layer_size() == (scales ? Size{1, 1} : dst.layer_size()));
    for (int y = rows.y; y < rows.bottom(); ++y) {
      for (int part = 0; part < 2 * dst.planes(); ++part) {
        const int plane = part / 2, offset = part % 2 * kHalfPixel;
        // Factors of missing channels would be read behind the last plane's.
        const bool exists = part * kPlaneChannels < dst.channels;
        const float* const factors =
            scales ? src[1].At(0, 0) + (exists ? part : 0) * src[1].plane_stride : nullptr;
        multiply_(
            {.a = src[0].At(y, rows.x) + plane * src[0].plane_stride + offset,
             .b = scales ? nullptr : src[1].At(y, rows.x) + plane * src[1].plane_stride + offset,
             .factors = factors,
             .dst = dst.At(y, rows.x) + plane * dst.plane_stride + offset,
             .epilogue = epilogue_.args()},
            part * kPlaneChannels, rows.width);
      }
    }
  }

 private:
  const MultiplyFunction multiply_;
  const Epilogue epilogue_;
};

}  // namespace

bool MultiplyHalfSupports(const Layer& layer) {
  return layer.op == Op::kMul && layer.out_channels > kMaxInterleavedChannels;
}

std::unique_ptr<LayerKernel> MakeMultiplyHalf(const Layer& layer, Isa isa) {
  return std::make_unique<MultiplyHalfKernel>(layer, isa);
}

}  // namespace upscaled::cpu
#endif  // HWY_ONCE
