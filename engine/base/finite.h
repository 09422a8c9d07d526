// Finite numbers among floats.
#pragma once

#include <bit>
#include <cstdint>

namespace upscaled {

// Whether none is infinite or NaN. Without branches, so that it is vector instructions.
inline bool AllFinite(const float* values, int count) {
  constexpr uint32_t kExponent = 0x7f800000;
  uint32_t found = 0;
  for (int i = 0; i < count; ++i) {
    found |= (std::bit_cast<uint32_t>(values[i]) & kExponent) == kExponent ? 1 : 0;
  }
  return found == 0;
}

}  // namespace upscaled
