// Sixteen-bit floats, as weights are often stored.
#pragma once

#include <cstdint>

namespace upscaled {

float HalfToFloat(uint16_t half);          // IEEE 754 binary16
float Bfloat16ToFloat(uint16_t bfloat16);  // the upper half of a binary32

}  // namespace upscaled
