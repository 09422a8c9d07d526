#include "engine/pipeline/kept_colours_row.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/pipeline/kept_colours_row.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace upscaled {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::CappedTag<float, kRowPaddingFloats>;

// first + weight * (second - first)
template <class V>
HWY_INLINE V Mix(V first, V second, V weight) {
  return hn::Add(first, hn::Mul(weight, hn::Sub(second, first)));
}

void SmoothAnyRow(const HalfGaussian& gaussian, const SmoothedRows& before,
                  const SmoothedRows& behind, size_t count, float* smoothed) {
  const Floats d;
  for (size_t i = 0; i < count; i += hn::Lanes(d)) {
    auto sum = hn::Mul(hn::Set(d, gaussian[0]), hn::LoadU(d, before[0] + i));
    for (size_t k = 1; k < gaussian.size(); ++k) {
      const auto both = hn::Add(hn::LoadU(d, before[k] + i), hn::LoadU(d, behind[k] + i));
      sum = hn::Add(sum, hn::Mul(hn::Set(d, gaussian[k]), both));
    }
    hn::StoreU(sum, d, smoothed + i);
  }
}

void AddAnySamples(const uint16_t* samples, size_t count, uint32_t* sums) {
  const hn::ScalableTag<uint32_t> d;
  const hn::Rebind<uint16_t, decltype(d)> d16;
  size_t i = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) {
    const auto wide = hn::PromoteTo(d, hn::LoadU(d16, samples + i));
    hn::StoreU(hn::Add(hn::LoadU(d, sums + i), wide), d, sums + i);
  }
  for (; i < count; ++i) sums[i] += samples[i];
}

void MixAnyRows(const float* first, const float* second, float second_weight, size_t count,
                float* mixed) {
  const Floats d;
  const auto weight = hn::Set(d, second_weight);
  for (size_t i = 0; i < count; i += hn::Lanes(d))
    hn::StoreU(Mix(hn::LoadU(d, first + i), hn::LoadU(d, second + i), weight), d, mixed + i);
}

// A pixel is a vector of four floats, if vectors are as long. Of RGB the next pixel overwrites the
// fourth.
void EnlargeAnyRow(const float* rgb, int width, std::span<const ColumnPhase> phases, int channels,
                   float* enlarged) {
  constexpr int kColours = 3;
  const hn::CappedTag<float, 4> d;
  const int lanes = static_cast<int>(hn::Lanes(d));
  for (int x = 0; x < width; ++x, rgb += kColours) {
    for (const ColumnPhase& phase : phases) {
      const float* const first = rgb + phase.first_float;
      const auto weight = hn::Set(d, phase.second_weight);
      for (int c = 0; c < channels; c += lanes) {
        const auto mixed = Mix(hn::LoadU(d, first + c), hn::LoadU(d, first + kColours + c), weight);
        const auto colours = hn::FirstN(d, static_cast<size_t>(kColours - c));
        hn::StoreU(hn::IfThenElseZero(colours, mixed), d, enlarged + c);
      }
      enlarged += channels;
    }
  }
}

void CorrectAnyRow(const uint16_t* src, const float* correction, size_t count, uint16_t* dst) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Rebind<uint16_t, decltype(d)> d16;
  constexpr float kMost = 65535;
  const auto half = hn::Set(d, 0.5f), most = hn::Set(d, kMost);
  size_t i = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) {
    const auto pixel = hn::ConvertTo(d, hn::PromoteTo(di, hn::LoadU(d16, src + i)));
    const auto value = hn::Add(hn::Add(pixel, hn::LoadU(d, correction + i)), half);
    const auto clamped = hn::Min(hn::Max(hn::Zero(d), value), most);
    hn::StoreU(hn::DemoteTo(d16, hn::ConvertTo(di, clamped)), d16, dst + i);
  }
  for (; i < count; ++i) {
    const float value = static_cast<float>(src[i]) + correction[i] + 0.5f;
    dst[i] = static_cast<uint16_t>(value > 0 ? (value < kMost ? value : kMost) : 0.0f);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace upscaled
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace upscaled {

HWY_EXPORT(SmoothAnyRow);
HWY_EXPORT(AddAnySamples);
HWY_EXPORT(MixAnyRows);
HWY_EXPORT(EnlargeAnyRow);
HWY_EXPORT(CorrectAnyRow);

void SmoothRow(const HalfGaussian& gaussian, const SmoothedRows& before, const SmoothedRows& behind,
               size_t count, float* smoothed) {
  HWY_DYNAMIC_DISPATCH(SmoothAnyRow)(gaussian, before, behind, count, smoothed);
}

void AddSamples(const uint16_t* samples, size_t count, uint32_t* sums) {
  HWY_DYNAMIC_DISPATCH(AddAnySamples)(samples, count, sums);
}

void MixRows(const float* first, const float* second, float second_weight, size_t count,
             float* mixed) {
  HWY_DYNAMIC_DISPATCH(MixAnyRows)(first, second, second_weight, count, mixed);
}

void EnlargeRow(const float* rgb, int width, std::span<const ColumnPhase> phases, int channels,
                float* enlarged) {
  HWY_DYNAMIC_DISPATCH(EnlargeAnyRow)(rgb, width, phases, channels, enlarged);
}

void CorrectRow(const uint16_t* src, const float* correction, size_t count, uint16_t* dst) {
  HWY_DYNAMIC_DISPATCH(CorrectAnyRow)(src, correction, count, dst);
}

}  // namespace upscaled
#endif  // HWY_ONCE
