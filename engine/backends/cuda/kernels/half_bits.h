// Rounds to IEEE 754 binary16 on the host.
#pragma once

#include <cstdint>

namespace upscaled::cuda {

// To the nearest, ties to even; beyond the largest half infinity.
uint16_t FloatToHalfBits(float value);

}  // namespace upscaled::cuda
