// The one-dimensional Winograd transforms of F(4, 3) and F(6, 3) on vectors of one target; the two
// dimensions of a block are transformed one after the other (Lavin and Gray, "Fast Algorithms for
// Convolutional Neural Networks", section 4). Points 0, +-1, +-2, infinity and, for F(6, 3), +-1/2.
// The weight transforms that belong to them are in winograd_weights.h.

#if defined(UPSCALED_CPU_WINOGRAD_TRANSFORM_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef UPSCALED_CPU_WINOGRAD_TRANSFORM_INL_H
#undef UPSCALED_CPU_WINOGRAD_TRANSFORM_INL_H
#else
#define UPSCALED_CPU_WINOGRAD_TRANSFORM_INL_H
#endif

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace upscaled::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// c * a + b and b - c * a for a constant c.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V AddScaled(D d, float c, V a, V b) {
  return hn::MulAdd(hn::Set(d, c), a, b);
}
template <class D, class V = hn::Vec<D>>
HWY_INLINE V SubScaled(D d, float c, V a, V b) {
  return hn::NegMulAdd(hn::Set(d, c), a, b);
}

// Input of kPoints samples to as many points (B^T), and points to kOutputs results (A^T).
struct F4 {
  static constexpr int kOutputs = 4;
  static constexpr int kPoints = 6;

  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE void Input(D d, const V* s, V* t) {
    t[0] = AddScaled(d, 4.0f, s[0], SubScaled(d, 5.0f, s[2], s[4]));
    t[5] = AddScaled(d, 4.0f, s[1], SubScaled(d, 5.0f, s[3], s[5]));
    const V even1 = SubScaled(d, 4.0f, s[2], s[4]), odd1 = SubScaled(d, 4.0f, s[1], s[3]);
    t[1] = hn::Add(even1, odd1);
    t[2] = hn::Sub(even1, odd1);
    const V even2 = hn::Sub(s[4], s[2]), odd2 = hn::Sub(s[3], s[1]);
    t[3] = AddScaled(d, 2.0f, odd2, even2);
    t[4] = SubScaled(d, 2.0f, odd2, even2);
  }

  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE void Output(D d, const V* m, V* y) {
    const V sum1 = hn::Add(m[1], m[2]), diff1 = hn::Sub(m[1], m[2]);
    const V sum2 = hn::Add(m[3], m[4]), diff2 = hn::Sub(m[3], m[4]);
    y[0] = hn::Add(m[0], hn::Add(sum1, sum2));
    y[1] = AddScaled(d, 2.0f, diff2, diff1);
    y[2] = AddScaled(d, 4.0f, sum2, sum1);
    y[3] = hn::Add(m[5], AddScaled(d, 8.0f, diff2, diff1));
  }
};

struct F6 {
  static constexpr int kOutputs = 6;
  static constexpr int kPoints = 8;

  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE void Input(D d, const V* s, V* t) {
    t[0] = AddScaled(d, 5.25f, hn::Sub(s[4], s[2]), hn::Sub(s[0], s[6]));
    t[7] = AddScaled(d, 5.25f, hn::Sub(s[3], s[5]), hn::Sub(s[7], s[1]));
    const V even1 = SubScaled(d, 4.25f, s[4], hn::Add(s[2], s[6]));
    const V odd1 = SubScaled(d, 4.25f, s[3], hn::Add(s[1], s[5]));
    t[1] = hn::Add(even1, odd1);
    t[2] = hn::Sub(even1, odd1);
    const V even2 = SubScaled(d, 1.25f, s[4], AddScaled(d, 0.25f, s[2], s[6]));
    const V odd2 = SubScaled(d, 1.25f, s[3], AddScaled(d, 0.25f, s[1], s[5]));
    t[3] = AddScaled(d, 2.0f, odd2, even2);
    t[4] = SubScaled(d, 2.0f, odd2, even2);
    const V even3 = SubScaled(d, 5.0f, s[4], AddScaled(d, 4.0f, s[2], s[6]));
    const V odd3 = SubScaled(d, 5.0f, s[3], AddScaled(d, 4.0f, s[1], s[5]));
    t[5] = AddScaled(d, 0.5f, odd3, even3);
    t[6] = SubScaled(d, 0.5f, odd3, even3);
  }

  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE void Output(D d, const V* m, V* y) {
    const V sum1 = hn::Add(m[1], m[2]), diff1 = hn::Sub(m[1], m[2]);
    const V sum2 = hn::Add(m[3], m[4]), diff2 = hn::Sub(m[3], m[4]);
    const V sum3 = hn::Add(m[5], m[6]), diff3 = hn::Sub(m[5], m[6]);
    y[0] = AddScaled(d, 32.0f, sum3, hn::Add(hn::Add(m[0], sum1), sum2));
    y[1] = AddScaled(d, 16.0f, diff3, AddScaled(d, 2.0f, diff2, diff1));
    y[2] = AddScaled(d, 8.0f, sum3, AddScaled(d, 4.0f, sum2, sum1));
    y[3] = AddScaled(d, 4.0f, diff3, AddScaled(d, 8.0f, diff2, diff1));
    y[4] = AddScaled(d, 2.0f, sum3, AddScaled(d, 16.0f, sum2, sum1));
    y[5] = AddScaled(d, 32.0f, diff2, hn::Add(hn::Add(m[7], diff1), diff3));
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace upscaled::cpu
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
