// Integer division with named rounding, for negative numbers too. Divisors are positive.
#pragma once

namespace upscaled {

constexpr int FloorDiv(int a, int b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }
constexpr int CeilDiv(int a, int b) { return -FloorDiv(-a, b); }
constexpr int RoundUp(int value, int multiple) { return CeilDiv(value, multiple) * multiple; }

// How many parts of at least `least` a length has room for, or one; `least` 0: it has but one.
constexpr int PartCount(int length, int least) {
  return least == 0 || length < least ? 1 : length / least;
}

}  // namespace upscaled
