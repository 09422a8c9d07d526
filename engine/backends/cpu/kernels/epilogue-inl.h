// The activation on vectors of one target. Included once per target by kernel files, inside their
// HWY_BEFORE_NAMESPACE part.

// Highway's per-target include guard.
#if defined(UPSCALED_CPU_EPILOGUE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef UPSCALED_CPU_EPILOGUE_INL_H
#undef UPSCALED_CPU_EPILOGUE_INL_H
#else
#define UPSCALED_CPU_EPILOGUE_INL_H
#endif

#include <cmath>

#include "engine/backends/cpu/kernels/epilogue.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace upscaled::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D, class V = hn::Vec<D>>
HWY_NOINLINE V Sigmoid(D d, V v) {
  HWY_ALIGN float lanes[hn::MaxLanes(d)];
  hn::Store(v, d, lanes);
  for (float& lane : lanes) lane = 1.0f / (1.0f + std::exp(-lane));
  return hn::Load(d, lanes);
}

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
      HWY_UNROLL(32)
      for (int i = 0; i < kCount; ++i) v[i] = Sigmoid(d, v[i]);
      return;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace upscaled::cpu
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
