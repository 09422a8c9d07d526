#include "engine/backends/cpu/kernels/convert.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/backends/cpu/kernels/convert.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace upscaled::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::CappedTag<float, kPlaneChannels>;
using HalfTag = hn::Rebind<hwy::float16_t, Tag>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(Tag()));

void ToHalf(const float* low, const float* high, float* half, size_t pixels) {
  const Tag d;
  auto* dst = reinterpret_cast<hwy::float16_t*>(half);
  for (size_t i = 0; i < pixels * kPlaneFloats; i += kPlaneFloats, dst += kHalfPlaneChannels) {
    for (int lane = 0; lane < kPlaneChannels; lane += kLanes) {
      const auto upper = high != nullptr ? hn::Load(d, high + i + lane) : hn::Zero(d);
      hn::Store(hn::DemoteTo(HalfTag(), hn::Load(d, low + i + lane)), HalfTag(), dst + lane);
      hn::Store(hn::DemoteTo(HalfTag(), upper), HalfTag(), dst + kPlaneChannels + lane);
    }
  }
}

// Infinity becomes NaN: activations in fp32 keep it.
template <class V>
HWY_INLINE V KeptIfFinite(V v) {
  return hn::MulAdd(v, hn::Zero(Tag()), v);
}

void ToFloat(const float* half, float* low, float* high, size_t pixels) {
  const Tag d;
  const auto* src = reinterpret_cast<const hwy::float16_t*>(half);
  for (size_t i = 0; i < pixels * kPlaneFloats; i += kPlaneFloats, src += kHalfPlaneChannels) {
    for (int lane = 0; lane < kPlaneChannels; lane += kLanes) {
      hn::Store(KeptIfFinite(hn::PromoteTo(d, hn::Load(HalfTag(), src + lane))), d, low + i + lane);
      if (high == nullptr) continue;
      hn::Store(KeptIfFinite(hn::PromoteTo(d, hn::Load(HalfTag(), src + kPlaneChannels + lane))), d,
                high + i + lane);
    }
  }
}

constexpr ConvertFunctions kConvertFunctions = {&ToHalf, &ToFloat};

}  // namespace HWY_NAMESPACE
}  // namespace upscaled::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "engine/backends/cpu/kernels/isa_dispatch.h"

namespace upscaled::cpu {
namespace {

const ConvertFunctions* FunctionsFor(Isa isa) {
  UPSCALED_RETURN_ADDRESS_FOR(isa, kConvertFunctions)
}

template <bool kToHalf>
class ConvertKernel final : public LayerKernel {
 public:
  explicit ConvertKernel(Isa isa) : functions_(*FunctionsFor(isa)) {}

  void Run(std::span<const Tensor> src, const Tensor& dst, const Rect& rows,
           float* /*scratch*/) const override {
    const Tensor& halves = kToHalf ? dst : src[0];
    const Tensor& floats = kToHalf ? src[0] : dst;
    for (int y = rows.y; y < rows.bottom(); ++y) {
      for (int plane = 0; plane < halves.planes(); ++plane) {
        float* half = halves.At(y, rows.x) + plane * halves.plane_stride;
        float* low = floats.At(y, rows.x) + 2 * plane * floats.plane_stride;
        float* high = 2 * plane + 1 < floats.planes() ? low + floats.plane_stride : nullptr;
        if (kToHalf) {
          functions_.to_half(low, high, half, rows.width);
        } else {
          functions_.to_float(half, low, high, rows.width);
        }
      }
    }
  }

 private:
  const ConvertFunctions functions_;
};

}  // namespace

std::unique_ptr<LayerKernel> MakeToHalf(const Layer& /*layer*/, Isa isa) {
  return std::make_unique<ConvertKernel<true>>(isa);
}

std::unique_ptr<LayerKernel> MakeToFloat(const Layer& /*layer*/, Isa isa) {
  return std::make_unique<ConvertKernel<false>>(isa);
}

HugeBuffer ToHalves(const HugeBuffer& floats, Isa isa) {
  HugeBuffer halves(floats.size() / 2);
  const ConvertFunctions& functions = *FunctionsFor(isa);
  for (size_t i = 0; i < floats.size(); i += kHalfPlaneChannels) {
    const float* pixel = floats.data() + i;
    functions.to_half(pixel, pixel + kPlaneChannels, halves.data() + i / 2, 1);
  }
  return halves;
}

}  // namespace upscaled::cpu
#endif  // HWY_ONCE
