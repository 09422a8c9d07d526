// Finite numbers among floats.
#pragma once

#include <bit>
#include <cstdint>

namespace upscaled {

// Whether none is infinite or NaN: one more than their exponents, all ones, carries into the sign.
// Without branches, so it becomes vector instructions.
inline bool AllFinite(const float* values, int count) {
  constexpr uint32_t kSign = 0x80000000, kOneMore = 0x00800000;
  uint32_t found = 0;
  for (int i = 0; i < count; ++i) {
    found |= (std::bit_cast<uint32_t>(values[i]) & ~kSign) + kOneMore;
  }
  return (found & kSign) == 0;
}

}  // namespace upscaled
