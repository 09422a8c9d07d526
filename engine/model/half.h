// IEEE 754 binary16, as weights are often stored.
#pragma once

#include <cstdint>

namespace upscaled {

float HalfToFloat(uint16_t half);

}  // namespace upscaled
