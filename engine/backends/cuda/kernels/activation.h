// The activation and constants applied to a layer's result, as kernels take them.
#pragma once

#include <cmath>
#include <cstdint>

#include "engine/backends/cuda/kernels/portable.h"
#include "engine/backends/cuda/kernels/tensor_view.h"

namespace upscaled::cuda {

enum class ActivationKind : uint8_t {
  kNone,
  kRelu,
  kSloped,
  kSigmoid,
  kClip,
  kSilu,
  kMish,
  kGelu,
  kGeluTanh,
  kSoftplus
};

struct ActivationParams {
  ActivationKind kind = ActivationKind::kNone;
  float clip_min = 0, clip_max = 0;
};

// A plane's constants, in this order: 8 biases, 8 slopes of negative values, 8 factors (kAffine,
// kPixelNorm).
inline constexpr int kPlaneConstants = 3 * kPlaneChannels;
inline constexpr int kSlopes = kPlaneChannels, kFactors = 2 * kPlaneChannels;

UPSCALED_HD inline float Activate(float v, float slope, const ActivationParams& activation) {
  switch (activation.kind) {
    case ActivationKind::kNone:
      break;
    case ActivationKind::kRelu:
      return v < 0 ? 0.0f : v;
    case ActivationKind::kSloped:
      return v < 0 ? v * slope : v;
    case ActivationKind::kSigmoid:
      return 1.0f / (1.0f + expf(-v));
    case ActivationKind::kClip:
      return v < activation.clip_min ? activation.clip_min
                                     : (v > activation.clip_max ? activation.clip_max : v);
    case ActivationKind::kSilu:
      return v / (1.0f + expf(-v));
    case ActivationKind::kMish: {  // tanh(log(1 + e)) of e = exp(v), which is 1 from 20 on
      const float e = expf(v < 20 ? v : 20), n = e * (e + 2);
      return v * (n / (n + 2));
    }
    case ActivationKind::kGelu:
      return 0.5f * v * erfcf(-0.707106781f * v);
    case ActivationKind::kGeluTanh:  // (1 + tanh(u)) / 2 = 1 / (1 + exp(-2 u))
      return v / (1.0f + expf(-1.59576912f * (v + 0.044715f * v * v * v)));
    case ActivationKind::kSoftplus:
      return (v > 0 ? v : 0) + log1pf(expf(-fabsf(v)));
  }
  return v;
}

}  // namespace upscaled::cuda
