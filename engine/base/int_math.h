// Integer division that rounds the way it says, for negative numbers too. Divisors are positive.
#pragma once

namespace upscaled {

constexpr int FloorDiv(int a, int b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }
constexpr int CeilDiv(int a, int b) { return -FloorDiv(-a, b); }
constexpr int RoundUp(int value, int multiple) { return CeilDiv(value, multiple) * multiple; }

}  // namespace upscaled
