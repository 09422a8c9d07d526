// Vectors of 16 floats and, with AVX512-FP16, of 32 halves, for files compiled only for AVX-512.
// Everything is static, so the linker merges no code of those instructions with other files' code.
#pragma once

#ifdef __AVX512F__  // elsewhere the types do not exist
#include <immintrin.h>

#include "engine/backends/cpu/kernels/args.h"

#ifdef __clang__
#define UPSCALED_PRAGMA(text) _Pragma(#text)
#define UPSCALED_UNROLL(n) UPSCALED_PRAGMA(clang loop unroll_count(n))
#else
#define UPSCALED_PRAGMA(text) _Pragma(#text)
#define UPSCALED_UNROLL(n) UPSCALED_PRAGMA(GCC unroll n)
#endif

namespace upscaled::cpu {
namespace {

#define UPSCALED_AVX512_INLINE static inline __attribute__((always_inline))

constexpr int kHalfLanes = 32, kFloatLanes = 16;
constexpr int kRoundToNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;

UPSCALED_AVX512_INLINE int Min(int a, int b) { return a < b ? a : b; }

// The steps of transforms and activations, for both kinds of vector.
UPSCALED_AVX512_INLINE __m512 Add(__m512 a, __m512 b) { return _mm512_add_ps(a, b); }
UPSCALED_AVX512_INLINE __m512 Sub(__m512 a, __m512 b) { return _mm512_sub_ps(a, b); }
// c * a + b and b - c * a for a constant c.
UPSCALED_AVX512_INLINE __m512 AddScaled(double c, __m512 a, __m512 b) {
  return _mm512_fmadd_ps(_mm512_set1_ps(static_cast<float>(c)), a, b);
}
UPSCALED_AVX512_INLINE __m512 SubScaled(double c, __m512 a, __m512 b) {
  return _mm512_fnmadd_ps(_mm512_set1_ps(static_cast<float>(c)), a, b);
}
UPSCALED_AVX512_INLINE __m512 Filled(float value, __m512) { return _mm512_set1_ps(value); }
UPSCALED_AVX512_INLINE __m512 MulNegative(__m512 v, __m512 slope) {
  const __mmask16 negative = _mm512_cmp_ps_mask(v, _mm512_setzero_ps(), _CMP_LT_OQ);
  return _mm512_mask_mul_ps(v, negative, v, slope);
}
UPSCALED_AVX512_INLINE __m512 Clamp(__m512 v, __m512 low, __m512 high) {
  return _mm512_min_ps(_mm512_max_ps(v, low), high);
}

// The vectors of curves.inc.
namespace curves {

#define UPSCALED_CURVE inline __attribute__((always_inline))
#define UPSCALED_CURVE_CALL static inline __attribute__((noinline))

UPSCALED_AVX512_INLINE __m512 Mul(__m512 a, __m512 b) { return _mm512_mul_ps(a, b); }
UPSCALED_AVX512_INLINE __m512 Div(__m512 a, __m512 b) { return _mm512_div_ps(a, b); }
UPSCALED_AVX512_INLINE __m512 MulAdd(__m512 a, __m512 b, __m512 c) {
  return _mm512_fmadd_ps(a, b, c);
}
// The second of two when either is NaN.
UPSCALED_AVX512_INLINE __m512 Lesser(__m512 bound, __m512 v) { return _mm512_min_ps(bound, v); }
UPSCALED_AVX512_INLINE __m512 Greater(__m512 bound, __m512 v) { return _mm512_max_ps(bound, v); }
UPSCALED_AVX512_INLINE __m512 IfNegative(__m512 v, __m512 yes, __m512 no) {
  return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(v, _mm512_setzero_ps(), _CMP_LT_OQ), no, yes);
}
UPSCALED_AVX512_INLINE __m512 FromExponent(__m512 v) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(v), 23));
}
struct Floats {};
UPSCALED_AVX512_INLINE __m512 LoadVector(Floats, const float* from) { return _mm512_load_ps(from); }
UPSCALED_AVX512_INLINE void StoreVector(__m512 v, Floats, float* to) { _mm512_store_ps(to, v); }
UPSCALED_AVX512_INLINE size_t LanesOf(Floats) { return kFloatLanes; }

#include "engine/backends/cpu/kernels/curves.inc"

#undef UPSCALED_CURVE
#undef UPSCALED_CURVE_CALL

}  // namespace curves

// A vector's values as floats, in memory.
constexpr int CountFloats(const __m512*) { return kFloatLanes; }
UPSCALED_AVX512_INLINE void StoreFloats(__m512 v, float* to) { _mm512_store_ps(to, v); }
UPSCALED_AVX512_INLINE __m512 LoadFloats(const float* from, __m512) { return _mm512_load_ps(from); }
// `result`, or NaN where `v` is not finite.
UPSCALED_AVX512_INLINE __m512 UnlessFinite(__m512 v, __m512 result) {
  return _mm512_fmadd_ps(v, _mm512_setzero_ps(), result);
}

#ifdef __AVX512FP16__
using Half = _Float16;

UPSCALED_AVX512_INLINE __m512h Add(__m512h a, __m512h b) { return _mm512_add_ph(a, b); }
UPSCALED_AVX512_INLINE __m512h Sub(__m512h a, __m512h b) { return _mm512_sub_ph(a, b); }
UPSCALED_AVX512_INLINE __m512h AddScaled(double c, __m512h a, __m512h b) {
  return _mm512_fmadd_ph(_mm512_set1_ph(static_cast<Half>(c)), a, b);
}
UPSCALED_AVX512_INLINE __m512h SubScaled(double c, __m512h a, __m512h b) {
  return _mm512_fnmadd_ph(_mm512_set1_ph(static_cast<Half>(c)), a, b);
}

// sum += weight * the half at `value`. GCC would spend two instructions on the broadcast.
UPSCALED_AVX512_INLINE void MulAddBroadcast(const Half* value, const __m512h& weight,
                                            __m512h& sum) {
#ifdef __clang__
  sum = _mm512_fmadd_ph(_mm512_set1_ph(*value), weight, sum);
#else
  asm("vfmadd231ph %2%{1to32%}, %1, %0" : "+v"(sum) : "v"(weight), "m"(*value));
#endif
}

UPSCALED_AVX512_INLINE __m512 LowFloats(__m512h v) {
  return _mm512_cvtph_ps(_mm512_castsi512_si256(_mm512_castph_si512(v)));
}
UPSCALED_AVX512_INLINE __m512 HighFloats(__m512h v) {
  return _mm512_cvtph_ps(_mm512_extracti64x4_epi64(_mm512_castph_si512(v), 1));
}
UPSCALED_AVX512_INLINE __m512h ToHalves(__m512 low, __m512 high) {
  return _mm512_castsi512_ph(
      _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtps_ph(low, kRoundToNearest)),
                         _mm512_cvtps_ph(high, kRoundToNearest), 1));
}
UPSCALED_AVX512_INLINE __m512h Filled(float value, __m512h) { return _mm512_set1_ph(value); }
UPSCALED_AVX512_INLINE __m512h MulNegative(__m512h v, __m512h slope) {
  const __mmask32 negative = _mm512_cmp_ph_mask(v, _mm512_setzero_ph(), _CMP_LT_OQ);
  return _mm512_mask_mul_ph(v, negative, v, slope);
}
UPSCALED_AVX512_INLINE __m512h Clamp(__m512h v, __m512h low, __m512h high) {
  return _mm512_min_ph(_mm512_max_ph(v, low), high);
}
constexpr int CountFloats(const __m512h*) { return kHalfLanes; }
UPSCALED_AVX512_INLINE void StoreFloats(__m512h v, float* to) {
  _mm512_store_ps(to, LowFloats(v));
  _mm512_store_ps(to + kFloatLanes, HighFloats(v));
}
UPSCALED_AVX512_INLINE __m512h LoadFloats(const float* from, __m512h) {
  return ToHalves(_mm512_load_ps(from), _mm512_load_ps(from + kFloatLanes));
}
UPSCALED_AVX512_INLINE __m512h UnlessFinite(__m512h v, __m512h result) {
  return _mm512_fmadd_ph(v, _mm512_setzero_ph(), result);
}
#endif  // __AVX512FP16__

// Applies the activation to `kCount` vectors of the same channels, `slope` being theirs. Sums
// outside the range of halves stay infinite or NaN, so they reach the result and are noticed.
template <int kCount, class V>
UPSCALED_AVX512_INLINE void Activate(const EpilogueArgs& epilogue, V slope, V* v) {
  switch (epilogue.kind) {
    case EpilogueArgs::kNone:
      return;
    case EpilogueArgs::kSlope:
      UPSCALED_UNROLL(32)
      for (int i = 0; i < kCount; ++i) v[i] = MulNegative(v[i], slope);
      return;
    case EpilogueArgs::kClip: {
      const V low = Filled(epilogue.clip_min, slope), high = Filled(epilogue.clip_max, slope);
      UPSCALED_UNROLL(32)
      for (int i = 0; i < kCount; ++i) v[i] = UnlessFinite(v[i], Clamp(v[i], low, high));
      return;
    }
    case EpilogueArgs::kSigmoid:
    case EpilogueArgs::kSilu:
    case EpilogueArgs::kMish:
    case EpilogueArgs::kGelu:
    case EpilogueArgs::kGeluTanh:
    case EpilogueArgs::kSoftplus: {
      constexpr int kFloats = CountFloats(static_cast<const V*>(nullptr));
      alignas(64) float values[kCount * kFloats];
      UPSCALED_UNROLL(32)
      for (int i = 0; i < kCount; ++i) StoreFloats(v[i], values + i * kFloats);
      curves::ApplyCurve(curves::Floats(), epilogue.kind, values, kCount * kFloats / kFloatLanes);
      UPSCALED_UNROLL(32)
      for (int i = 0; i < kCount; ++i) {
        v[i] = UnlessFinite(v[i], LoadFloats(values + i * kFloats, v[i]));
      }
      return;
    }
  }
}

}  // namespace
}  // namespace upscaled::cpu
#endif  // __AVX512F__
