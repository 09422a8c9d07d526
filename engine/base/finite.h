// Finite numbers among floats.
#pragma once

#include <bit>
#include <cstdint>

namespace upscaled {

// Whether none is infinite or NaN, whose exponents, one up, reach the place of the sign. Without
// branches, so that it is vector instructions.
inline bool AllFinite(const float* values, int count) {
  constexpr uint32_t kSign = 0x80000000, kOneUp = 0x00800000;
  uint32_t found = 0;
  for (int i = 0; i < count; ++i) {
    found |= (std::bit_cast<uint32_t>(values[i]) & ~kSign) + kOneUp;
  }
  return (found & kSign) == 0;
}

}  // namespace upscaled
