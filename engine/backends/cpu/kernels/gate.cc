#include "engine/backends/cpu/kernels/gate.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/backends/cpu/kernels/gate.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include "engine/backends/cpu/kernels/epilogue-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace upscaled::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// `pixels` of one plane; `factors` and `offsets` of its channels.
void GatePixels(const float* HWY_RESTRICT a, const float* HWY_RESTRICT b,
                const float* HWY_RESTRICT factors, const float* HWY_RESTRICT offsets,
                float* HWY_RESTRICT dst, size_t pixels) {
  const hn::CappedTag<float, kPlaneChannels> d;
  const size_t lanes = hn::Lanes(d);
  for (size_t lane = 0; lane < kPlaneChannels; lane += lanes) {
    const auto factor = hn::Load(d, factors + lane), offset = hn::Load(d, offsets + lane);
    for (size_t i = lane; i < pixels * kPlaneChannels; i += kPlaneChannels) {
      const auto v = hn::Load(d, a + i);
      const auto gate = hn::MulAdd(curves::SigmoidCurve::Of(v), factor, offset);
      hn::Store(hn::Mul(hn::Add(v, hn::Load(d, b + i)), gate), d, dst + i);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace upscaled::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>
#include <vector>

#include "engine/backends/cpu/kernels/isa_dispatch.h"
#include "engine/backends/cpu/workspace.h"
#include "engine/base/int_math.h"

namespace upscaled::cpu {
namespace {

using GateFunction = void (*)(const float* a, const float* b, const float* factors,
                              const float* offsets, float* dst, size_t pixels);

GateFunction GateFunctionFor(Isa isa){UPSCALED_RETURN_ADDRESS_FOR(isa, GatePixels)}

HugeBuffer Padded(const std::vector<float>& values, int channels) {
  HugeBuffer padded(RoundUp(channels, kPlaneChannels));
  std::fill_n(padded.data(), padded.size(), 0.0f);
  std::copy(values.begin(), values.end(), padded.data());
  return padded;
}

class Gate final : public LayerKernel {
 public:
  Gate(const Layer& affine, Isa isa)
      : run_(GateFunctionFor(isa)),
        factors_(Padded(affine.weights, affine.out_channels)),
        offsets_(Padded(affine.bias, affine.out_channels)) {}

  void Run(std::span<const Tensor> src, const Tensor& dst, const Rect& rows,
           float* /*scratch*/) const override {
    for (int y = rows.y; y < rows.bottom(); ++y) {
      for (int plane = 0; plane < dst.planes(); ++plane) {
        run_(src[0].At(y, rows.x) + plane * src[0].plane_stride,
             src[1].At(y, rows.x) + plane * src[1].plane_stride,
             factors_.data() + plane * kPlaneChannels, offsets_.data() + plane * kPlaneChannels,
             dst.At(y, rows.x) + plane * dst.plane_stride, static_cast<size_t>(rows.width));
      }
    }
  }

 private:
  const GateFunction run_;
  const HugeBuffer factors_;
  const HugeBuffer offsets_;
};

}  // namespace

std::unique_ptr<LayerKernel> MakeGate(const Layer& affine, Isa isa) {
  return std::make_unique<Gate>(affine, isa);
}

const KernelEntry& GateKernel() {
  static constexpr KernelEntry kGate = {{"gate"}, nullptr, &MakeGate};
  return kGate;
}

}  // namespace upscaled::cpu
#endif  // HWY_ONCE
