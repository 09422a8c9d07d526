// Numbers below 1e-38, for which some CPUs leave their fast path. Zen 4 does not: same time with
// and without.
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace upscaled::cpu {

// Has the calling thread take denormal floats for zero, as operands and as results, for as long as
// this lives. All threads that compute a tile do, so that its bytes do not depend on which of them
// computes a part. Does nothing on CPUs other than x86-64.
class FlushDenormals {
 public:
#if defined(__x86_64__)
  FlushDenormals() : before_(_mm_getcsr()) {
    _mm_setcsr(before_ | kFlushToZero | kDenormalsAreZero);
  }
  ~FlushDenormals() { _mm_setcsr(before_); }
#else
  FlushDenormals() {}
#endif
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
#if defined(__x86_64__)
  static constexpr unsigned kFlushToZero = 0x8000, kDenormalsAreZero = 0x0040;
  const unsigned before_;
#endif
};

}  // namespace upscaled::cpu
