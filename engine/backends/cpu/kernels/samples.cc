#include "engine/backends/cpu/kernels/samples.h"

#include "engine/image/full_scale.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/backends/cpu/kernels/samples.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace upscaled::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::CappedTag<float, kPlaneChannels>;
using IntTag = hn::Rebind<int32_t, Tag>;
constexpr size_t kLanes = hn::MaxLanes(Tag());

template <class Sample>
struct FromSamples {
  static HWY_INLINE void Convert(const Sample* src, float* dst) {
    constexpr float kScale = 1.0f / kFullScale<Sample>;
    const Tag d;
    const auto samples = hn::LoadU(hn::Rebind<Sample, Tag>(), src);
    const auto values = hn::ConvertTo(d, hn::PromoteTo(IntTag(), samples));
    hn::StoreU(hn::Mul(values, hn::Set(d, kScale)), d, dst);
  }
};

template <class Sample>
struct ToSamples {
  static HWY_INLINE void Convert(const float* src, Sample* dst) {
    constexpr float kFull = kFullScale<Sample>;
    const Tag d;
    const auto least = hn::Set(d, 0.5f), most = hn::Set(d, kFull + 0.5f);
    auto v = hn::MulAdd(hn::LoadU(d, src), hn::Set(d, kFull), least);
    v = hn::IfThenElse(hn::Gt(v, least), v, least);  // NaN is greater than nothing
    v = hn::IfThenElse(hn::Lt(v, most), v, most);
    const hn::Rebind<Sample, Tag> samples;
    hn::StoreU(hn::DemoteTo(samples, hn::ConvertTo(IntTag(), v)), samples, dst);
  }
};

// A rest smaller than a vector goes through memory of a whole one, so all go the same way.
template <class Conversion, class Src, class Dst>
void ConvertRow(const Src* src, size_t count, Dst* dst) {
  for (; count >= kLanes; count -= kLanes, src += kLanes, dst += kLanes) {
    Conversion::Convert(src, dst);
  }
  if (count == 0) return;
  Src in[kLanes] = {};
  Dst out[kLanes];
  for (size_t i = 0; i < count; ++i) in[i] = src[i];
  Conversion::Convert(in, out);
  for (size_t i = 0; i < count; ++i) dst[i] = out[i];
}

void CopyRow(const float* src, size_t count, float* dst) {
  for (size_t i = 0; i < count; ++i) dst[i] = src[i];
}

template <class Sample>
constexpr SampleConversion<Sample> kConversion = {&ConvertRow<FromSamples<Sample>, Sample, float>,
                                                  &ConvertRow<ToSamples<Sample>, float, Sample>};

constexpr SampleConversions kSampleConversions = {
    kConversion<uint8_t>, kConversion<uint16_t>, {&CopyRow, &CopyRow}};

}  // namespace HWY_NAMESPACE
}  // namespace upscaled::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "engine/backends/cpu/kernels/isa_dispatch.h"

namespace upscaled::cpu {
namespace {

const SampleConversions* ConversionsFor(Isa isa) {
  UPSCALED_RETURN_ADDRESS_FOR(isa, kSampleConversions)
}

}  // namespace

const SampleConversions& SampleConversionsFor(Isa isa) { return *ConversionsFor(isa); }

}  // namespace upscaled::cpu
#endif  // HWY_ONCE
