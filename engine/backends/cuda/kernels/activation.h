// The activation and constants applied to a layer's result, as kernels take them.
#pragma once

#include <cmath>
#include <cstdint>

#include "engine/backends/cuda/kernels/portable.h"
#include "engine/backends/cuda/kernels/tensor_view.h"

namespace upscaled::cuda {

enum class ActivationKind : uint8_t { kNone, kRelu, kSloped, kSigmoid, kClip };

struct ActivationParams {
  ActivationKind kind = ActivationKind::kNone;
  float clip_min = 0, clip_max = 0;
};

// A plane's constants, in this order: 8 biases, 8 slopes of negative values, 8 factors (kAffine).
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
  }
  return v;
}

}  // namespace upscaled::cuda
