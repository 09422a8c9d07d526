// A vector of channels at a time over all pixels of the line, because it stays in the first-level
// cache; images and doubles value by value.
#include "engine/train/kernels/sums_gradient.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/train/kernels/sums_gradient.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace upscaled::train {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::CappedTag<float, 16>;
using Vec = hn::Vec<Tag>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(Tag()));

void SetPadded(const SumsGradientArgs<float>& args) {
  const Tag d;
  const Vec zero = hn::Zero(d), slope = hn::Set(d, args.slope);
  for (int c = 0; c < args.padded; c += kLanes) {
    Vec total = hn::Load(d, args.total + c);
    const int end = args.pixels * args.padded;
    for (int i = c; i < end; i += args.padded) {
      const Vec d_result = hn::Load(d, args.d_result + i);
      const auto above = hn::Gt(hn::Load(d, args.result + i), zero);
      const Vec d_sum = hn::IfThenElse(above, d_result, hn::Mul(d_result, slope));
      hn::Store(d_sum, d, args.d_sums + i);
      total = hn::Add(total, d_sum);
    }
    hn::Store(total, d, args.total + c);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace upscaled::train
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "engine/backends/cpu/kernels/isa_dispatch.h"
#include "engine/train/tensor.h"

namespace upscaled::train {
namespace {

using cpu::Isa;

template <typename Real>
void SetValues(const SumsGradientArgs<Real>& args) {
  for (int x = 0; x < args.pixels; ++x) {
    for (int c = 0; c < args.stride; ++c) {
      const int i = x * args.stride + c;
      const Real d_sum = args.d_result[i] * (args.result[i] > 0 ? Real{1} : args.slope);
      args.d_sums[x * args.padded + c] = d_sum;
      args.total[c] += d_sum;
    }
  }
}

SumsGradientFunction<float> PaddedFor(Isa isa) { UPSCALED_RETURN_ADDRESS_FOR(isa, SetPadded) }

}  // namespace

template <>
SumsGradientFunction<float> SumsGradientFor(Isa isa, int channels) {
  return channels <= kImageChannels ? &SetValues<float> : PaddedFor(isa);
}

template <>
SumsGradientFunction<double> SumsGradientFor(Isa /*isa*/, int /*channels*/) {
  return &SetValues<double>;
}

}  // namespace upscaled::train
#endif  // HWY_ONCE
