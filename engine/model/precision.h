// A network's arithmetic.
#pragma once

#include <cstdint>
#include <string_view>

namespace upscaled {

enum class Precision : uint8_t {
  kExact,  // fp32
  kFast,   // fp16 where the device has it; the backend states its PSNR to kExact
};

// "exact", "fast".
constexpr std::string_view PrecisionName(Precision precision) {
  return precision == Precision::kExact ? "exact" : "fast";
}

}  // namespace upscaled
