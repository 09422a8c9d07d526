#include "engine/backends/cpu/kernels/activation.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/backends/cpu/kernels/activation.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include "engine/backends/cpu/kernels/epilogue-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace upscaled::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// In place where they are aligned, else, and at the end, through memory that is filled up.
void ApplyCurveToValues(EpilogueArgs::Kind kind, float* values, size_t count) {
  const hn::CappedTag<float, kPlaneChannels> d;
  if (reinterpret_cast<uintptr_t>(values) % (kPlaneChannels * sizeof(float)) == 0) {
    const size_t whole = count / kPlaneChannels * kPlaneChannels;
    curves::ApplyCurve(d, kind, values, whole / hn::Lanes(d));
    values += whole;
    count -= whole;
  }
  constexpr size_t kPart = 4 * kPlaneChannels;
  HWY_ALIGN float part[kPart] = {};
  for (; count > 0; values += kPart) {
    const size_t part_count = HWY_MIN(count, kPart);
    for (size_t i = 0; i < part_count; ++i) part[i] = values[i];
    curves::ApplyCurve(d, kind, part, kPart / hn::Lanes(d));
    for (size_t i = 0; i < part_count; ++i) values[i] = part[i];
    count -= part_count;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace upscaled::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>

#include "engine/backends/cpu/kernels/epilogue.h"
#include "engine/backends/cpu/kernels/isa_dispatch.h"

namespace upscaled::cpu {
namespace {

// Calls `function` with every channel's first value and its slope.
template <typename Function>
void ForEachValue(const Tensor& tensor, int y, int x, int width_px, Function function) {
  for (int plane = 0; plane < tensor.planes(); ++plane) {
    float* row = tensor.At(y, x) + plane * tensor.plane_stride;
    for (int n = 0; n < width_px; ++n, row += tensor.pixel_stride) {
      for (int c = 0; c < tensor.pixel_stride; ++c) row[c] = function(row[c], plane * 16 + c);
    }
  }
}

}  // namespace

CurveFunction CurveFunctionFor(Isa isa) { UPSCALED_RETURN_ADDRESS_FOR(isa, ApplyCurveToValues) }

void ApplyActivation(const Layer& layer, CurveFunction curve, const Tensor& tensor, int y, int x,
                     int width_px) {
  const auto apply = [&](auto function) { ForEachValue(tensor, y, x, width_px, function); };
  switch (layer.activation) {
    case Activation::kNone:
      return;
    case Activation::kRelu:
      return apply([](float v, int) { return std::max(v, 0.0f); });
    case Activation::kLeakyRelu:
      return apply([slope = layer.slope[0]](float v, int) { return v < 0 ? v * slope : v; });
    case Activation::kPRelu:
      return apply(
          [&](float v, int c) { return v < 0 && c < layer.out_channels ? v * layer.slope[c] : v; });
    case Activation::kClip:
      return apply([&](float v, int) { return std::clamp(v, layer.clip_min, layer.clip_max); });
    case Activation::kSigmoid:
    case Activation::kSilu:
    case Activation::kMish:
    case Activation::kGelu:
    case Activation::kGeluTanh:
    case Activation::kSoftplus:
      for (int plane = 0; plane < tensor.planes(); ++plane) {
        curve(KindOf(layer.activation), tensor.At(y, x) + plane * tensor.plane_stride,
              static_cast<size_t>(width_px) * tensor.pixel_stride);
      }
  }
}

}  // namespace upscaled::cpu
#endif  // HWY_ONCE
