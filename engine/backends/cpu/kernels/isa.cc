#include "engine/backends/cpu/kernels/isa.h"

#include <cstdint>

#include "hwy/highway.h"
#include "hwy/targets.h"
#ifdef UPSCALED_FP16
#include <cpuid.h>
#endif

namespace upscaled::cpu {

std::string_view IsaName(Isa isa) {
  switch (isa) {
    case Isa::kAvx512:
      return "avx512";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kSse4:
      return "sse4";
    case Isa::kNeon:
      return "neon";
    case Isa::kPortable:
      return "portable";
  }
  return "unknown";
}

std::vector<Isa> ListIsas() {
  struct Entry {
    int64_t target;
    Isa isa;
  };
  constexpr Entry kBestFirst[] = {{HWY_AVX3, Isa::kAvx512},
                                  {HWY_AVX2, Isa::kAvx2},
                                  {HWY_SSE4, Isa::kSse4},
                                  {HWY_NEON, Isa::kNeon},
                                  {HWY_EMU128 | HWY_SCALAR, Isa::kPortable}};
  // SupportedTargets() names only vector sets; the static target runs wherever this build runs.
  const int64_t runnable = (hwy::SupportedTargets() | HWY_STATIC_TARGET) & (HWY_TARGETS);
  std::vector<Isa> isas;
  for (const Entry& entry : kBestFirst) {
    if (runnable & entry.target) isas.push_back(entry.isa);
  }
  return isas;
}

int VectorLanes(Isa isa) {
  switch (isa) {
    case Isa::kAvx512:
      return 16;
    case Isa::kAvx2:
      return 8;
    case Isa::kSse4:
    case Isa::kNeon:
      return 4;
    case Isa::kPortable:
      return HWY_BASELINE_SCALAR == HWY_EMU128 ? 4 : 1;
  }
  return 1;
}

bool HasFp16([[maybe_unused]] Isa isa) {
#ifdef UPSCALED_FP16
  constexpr unsigned kFeatures = 7, kFp16 = 1u << 23;  // CPUID leaf and bit of EDX
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return isa == Isa::kAvx512 && __get_cpuid_count(kFeatures, 0, &eax, &ebx, &ecx, &edx) != 0 &&
         (edx & kFp16) != 0;
#else
  return false;
#endif
}

}  // namespace upscaled::cpu
