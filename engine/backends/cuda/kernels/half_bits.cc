#include "engine/backends/cuda/kernels/half_bits.h"

#include <bit>
#include <cmath>

namespace upscaled::cuda {

uint16_t FloatToHalfBits(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  const float magnitude = std::abs(value);
  if (!(magnitude < kHalfEnd)) return kHalfNan;
  if (magnitude < 0x1p-14f) {  // multiples of 2^-24
    return sign | static_cast<uint16_t>(std::nearbyint(magnitude * 0x1p24f));
  }
  // 13 bits of the mantissa are rounded off; a carry goes on into the exponent, as it should.
  const uint32_t shifted = (bits & 0x7fffffff) - (112u << 23);
  return sign | static_cast<uint16_t>((shifted + 0xfff + (shifted >> 13 & 1)) >> 13);
}

}  // namespace upscaled::cuda
