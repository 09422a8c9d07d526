// Products of pairs of 16-bit integers, for files compiled only for AVX512_VNNI. As avx512-inl.h.
#pragma once

#ifdef __AVX512F__
#include "engine/backends/cpu/kernels/avx512-inl.h"

namespace upscaled::cpu {
namespace {

using Int16 = int16_t;
constexpr int kClipped = 0x7fff;  // |V| that may have been more

// Weights, inputs and products in the order written: GCC would move loads ahead of the products and
// spill the sums.
UPSCALED_AVX512_INLINE __m512i LoadWeights(const Int16* from) {
  __m512i v;
  asm volatile("vmovdqa64 %1, %0" : "=v"(v) : "m"(*reinterpret_cast<const __m512i*>(from)));
  return v;
}
UPSCALED_AVX512_INLINE __m512i BroadcastPair(const Int16* from) {
  __m512i v;
  asm volatile("vpbroadcastd %1, %0" : "=v"(v) : "m"(*reinterpret_cast<const Int16(*)[2]>(from)));
  return v;
}
UPSCALED_AVX512_INLINE void AddProducts(__m512i pairs, __m512i weights, __m512i& sum) {
  asm volatile("vpdpwssd %2, %1, %0" : "+v"(sum) : "v"(weights), "v"(pairs));
}

UPSCALED_AVX512_INLINE __m512 LoadHalves(const float* from) {
  return _mm512_cvtph_ps(_mm256_load_si256(reinterpret_cast<const __m256i*>(from)));
}

}  // namespace
}  // namespace upscaled::cpu
#endif  // __AVX512F__
