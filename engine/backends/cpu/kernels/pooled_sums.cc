#include "engine/backends/cpu/kernels/pooled_sums.h"

#include "engine/backends/cpu/kernels/args.h"
#include "engine/graph/pooling.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/backends/cpu/kernels/pooled_sums.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace upscaled::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using DoubleTag = hn::CappedTag<double, kPlaneChannels>;
using FloatTag = hn::Rebind<float, DoubleTag>;
using HalfTag = hn::Rebind<hwy::float16_t, DoubleTag>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(DoubleTag()));

HWY_INLINE hn::Vec<FloatTag> LoadFloats(const float* src) { return hn::LoadU(FloatTag(), src); }
HWY_INLINE hn::Vec<FloatTag> LoadFloats(const hwy::float16_t* src) {
  return hn::PromoteTo(FloatTag(), hn::LoadU(HalfTag(), src));
}

template <int kChannels, class Value>
HWY_INLINE void SumPixels(const Value* HWY_RESTRICT src, int pixels, double* HWY_RESTRICT sums) {
  constexpr int kVectors = kChannels / kLanes;
  const DoubleTag d;
  const FloatTag f;
  const auto most = hn::Set(f, ChannelSums::kLimit), least = hn::Set(f, -ChannelSums::kLimit);
  const auto shift = hn::Set(d, ChannelSums::kShift);
  hn::Vec<DoubleTag> sum[kVectors];
  for (int v = 0; v < kVectors; ++v) sum[v] = hn::LoadU(d, sums + v * kLanes);
  for (; pixels > 0; --pixels, src += kChannels) {
    HWY_UNROLL(16)
    for (int v = 0; v < kVectors; ++v) {
      const auto value = LoadFloats(src + v * kLanes);
      // NaN is less than nothing.
      const auto clamped = hn::IfThenElse(hn::Lt(value, most), hn::Max(value, least), most);
      const auto rounded = hn::Sub(hn::Add(hn::PromoteTo(d, clamped), shift), shift);
      sum[v] = hn::Add(sum[v], rounded);
    }
  }
  for (int v = 0; v < kVectors; ++v) hn::StoreU(sum[v], d, sums + v * kLanes);
}

void SumFloats(const float* src, int pixels, double* sums) {
  SumPixels<kPlaneChannels>(src, pixels, sums);
}

void SumHalves(const float* src, int pixels, double* sums) {
  SumPixels<kHalfPlaneChannels>(reinterpret_cast<const hwy::float16_t*>(src), pixels, sums);
}

constexpr PooledSums kPooledSums = {&SumFloats, &SumHalves};

}  // namespace HWY_NAMESPACE
}  // namespace upscaled::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "engine/backends/cpu/kernels/isa_dispatch.h"

namespace upscaled::cpu {

namespace {

const PooledSums* FunctionsFor(Isa isa) { UPSCALED_RETURN_ADDRESS_FOR(isa, kPooledSums) }

}  // namespace

PooledSums PooledSumsFor(Isa isa) { return *FunctionsFor(isa); }

}  // namespace upscaled::cpu
#endif  // HWY_ONCE
