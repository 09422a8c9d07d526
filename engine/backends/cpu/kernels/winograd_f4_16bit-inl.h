// The one-dimensional transforms of F(4, 3) for kernels with multiplications in 16 bits, on vectors
// of floats or halves. As avx512-inl.h.
//
// The points 0, +-11/16, +-3/2, infinity lose least of 11 or 15 bits: the usual 0, +-1, +-2 make
// numbers of very different sizes. All constants are exact in fp16.
#pragma once

#ifdef __AVX512F__
#include "engine/backends/cpu/kernels/args.h"
#include "engine/backends/cpu/kernels/avx512-inl.h"

namespace upscaled::cpu {
namespace {

struct F4 {
  static constexpr int kOutputs = 4;
  static constexpr int kPoints = 6;
  static constexpr double kA = kWinograd16BitPoints[0], kB = kWinograd16BitPoints[1];
  static constexpr double kA2 = kA * kA, kB2 = kB * kB;

  template <class V>
  UPSCALED_AVX512_INLINE void Input(const V* s, V* t) {
    t[0] = AddScaled(kA2 * kB2, s[0], SubScaled(kA2 + kB2, s[2], s[4]));
    t[5] = AddScaled(kA2 * kB2, s[1], SubScaled(kA2 + kB2, s[3], s[5]));
    const V even1 = SubScaled(kB2, s[2], s[4]), odd1 = SubScaled(kB2, s[1], s[3]);
    t[1] = AddScaled(kA, odd1, even1);
    t[2] = SubScaled(kA, odd1, even1);
    const V even2 = SubScaled(kA2, s[2], s[4]), odd2 = SubScaled(kA2, s[1], s[3]);
    t[3] = AddScaled(kB, odd2, even2);
    t[4] = SubScaled(kB, odd2, even2);
  }

  // `bias` is added to every result.
  template <class V>
  UPSCALED_AVX512_INLINE void Output(const V* m, V bias, V* y) {
    const V sum1 = Add(m[1], m[2]), diff1 = Sub(m[1], m[2]);
    const V sum2 = Add(m[3], m[4]), diff2 = Sub(m[3], m[4]);
    y[0] = Add(Add(m[0], bias), Add(sum1, sum2));
    y[1] = AddScaled(kB, diff2, AddScaled(kA, diff1, bias));
    y[2] = AddScaled(kB2, sum2, AddScaled(kA2, sum1, bias));
    y[3] = AddScaled(kB * kB2, diff2, AddScaled(kA * kA2, diff1, Add(m[5], bias)));
  }
};

}  // namespace
}  // namespace upscaled::cpu
#endif  // __AVX512F__
