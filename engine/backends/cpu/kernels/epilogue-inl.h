// The activation on vectors of one target. Included once per target by kernel files, inside their
// HWY_BEFORE_NAMESPACE part.

// Highway's per-target include guard.
#if defined(UPSCALED_CPU_EPILOGUE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef UPSCALED_CPU_EPILOGUE_INL_H
#undef UPSCALED_CPU_EPILOGUE_INL_H
#else
#define UPSCALED_CPU_EPILOGUE_INL_H
#endif

#include "engine/backends/cpu/kernels/epilogue.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace upscaled::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The vectors of curves.inc.
namespace curves {

#define UPSCALED_CURVE HWY_INLINE
#define UPSCALED_CURVE_CALL HWY_NOINLINE

template <class V>
HWY_INLINE V Filled(float value, V) {
  return hn::Set(hn::DFromV<V>(), value);
}
template <class V>
HWY_INLINE V Lesser(V bound, V v) {
  return hn::IfThenElse(hn::Lt(bound, v), bound, v);
}
template <class V>
HWY_INLINE V Greater(V bound, V v) {
  return hn::IfThenElse(hn::Lt(v, bound), bound, v);
}
template <class V>
HWY_INLINE V IfNegative(V v, V yes, V no) {
  return hn::IfThenElse(hn::Lt(v, hn::Zero(hn::DFromV<V>())), yes, no);
}
template <class V>
HWY_INLINE V FromExponent(V v) {
  const hn::DFromV<V> d;
  return hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(hn::RebindToUnsigned<decltype(d)>(), v)));
}
template <class D>
HWY_INLINE hn::Vec<D> LoadVector(D d, const float* from) {
  return hn::Load(d, from);
}
template <class D>
HWY_INLINE void StoreVector(hn::Vec<D> v, D d, float* to) {
  hn::Store(v, d, to);
}
template <class D>
HWY_INLINE size_t LanesOf(D d) {
  return hn::Lanes(d);
}
using hn::Add;
using hn::Div;
using hn::Mul;
using hn::MulAdd;
using hn::Sub;

#include "engine/backends/cpu/kernels/curves.inc"

#undef UPSCALED_CURVE
#undef UPSCALED_CURVE_CALL

}  // namespace curves

// Applies the activation to `kCount` vectors of the same channels, `slope` being theirs. Every loop
// is unrolled: an index known only at run time would push the caller's accumulators into memory.
template <int kCount, class D, class V = hn::Vec<D>>
HWY_INLINE void Activate(D d, const EpilogueArgs& epilogue, V slope, V* HWY_RESTRICT v) {
  switch (epilogue.kind) {
    case EpilogueArgs::kNone:
      return;
    case EpilogueArgs::kSlope: {
      const V zero = hn::Zero(d);
      HWY_UNROLL(32)
      for (int i = 0; i < kCount; ++i) {
        v[i] = hn::IfThenElse(hn::Lt(v[i], zero), hn::Mul(v[i], slope), v[i]);
      }
      return;
    }
    case EpilogueArgs::kClip: {
      // x86 returns the second of two when either is NaN: it stays.
      const V low = hn::Set(d, epilogue.clip_min), high = hn::Set(d, epilogue.clip_max);
      HWY_UNROLL(32)
      for (int i = 0; i < kCount; ++i) v[i] = hn::Min(high, hn::Max(low, v[i]));
      return;
    }
    case EpilogueArgs::kSigmoid:
    case EpilogueArgs::kSilu:
    case EpilogueArgs::kMish:
    case EpilogueArgs::kGelu:
    case EpilogueArgs::kGeluTanh:
    case EpilogueArgs::kSoftplus: {
      HWY_ALIGN float values[kCount * hn::MaxLanes(d)];
      HWY_UNROLL(32)
      for (int i = 0; i < kCount; ++i) hn::Store(v[i], d, values + i * hn::MaxLanes(d));
      curves::ApplyCurve(d, epilogue.kind, values, kCount);
      HWY_UNROLL(32)
      for (int i = 0; i < kCount; ++i) v[i] = hn::Load(d, values + i * hn::MaxLanes(d));
      return;
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace upscaled::cpu
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
