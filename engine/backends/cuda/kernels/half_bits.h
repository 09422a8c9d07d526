// Rounds to IEEE 754 binary16 on the host.
#pragma once

#include <cstdint>

namespace upscaled::cuda {

// From here on values round beyond the largest half. They become NaN. No layer hides it, as a ReLU
// hides minus infinity, so the pixels it reaches are found at the end (SampleView::lost).
inline constexpr float kHalfEnd = 65520;
inline constexpr uint16_t kHalfNan = 0x7fff;

// To the nearest, ties to even; kHalfNan beyond their range.
uint16_t FloatToHalfBits(float value);

}  // namespace upscaled::cuda
