#include "engine/backends/cpu/kernels/isa.h"

#include <cstdint>

#include "hwy/highway.h"
#include "hwy/targets.h"
#ifdef UPSCALED_VNNI
#include <cpuid.h>
#endif

namespace upscaled::cpu {
namespace {

// Instructions beyond Highway's AVX3.
struct Extensions {
  bool fp16 = false;
  bool vnni = false;
};

// Instruction sets of this machine, known to the build's compiler.
Extensions FindExtensions() {
  Extensions found;
#ifdef UPSCALED_VNNI
  constexpr unsigned kFeatures = 7;  // CPUID leaf
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid_count(kFeatures, 0, &eax, &ebx, &ecx, &edx) == 0) return found;
  found.vnni = (ecx & (1u << 11)) != 0;
#ifdef UPSCALED_FP16
  found.fp16 = found.vnni && (edx & (1u << 23)) != 0;
#endif
#endif
  return found;
}

}  // namespace

std::string_view IsaName(Isa isa) {
  switch (isa) {
    case Isa::kAvx512Fp16:
      return "avx512_fp16";
    case Isa::kAvx512Vnni:
      return "avx512_vnni";
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
    bool extended = true;
  };
  const Extensions extensions = FindExtensions();
  const Entry best_first[] = {{HWY_AVX3, Isa::kAvx512Fp16, extensions.fp16},
                              {HWY_AVX3, Isa::kAvx512Vnni, extensions.vnni},
                              {HWY_AVX3, Isa::kAvx512},
                              {HWY_AVX2, Isa::kAvx2},
                              {HWY_SSE4, Isa::kSse4},
                              {HWY_NEON, Isa::kNeon},
                              {HWY_EMU128 | HWY_SCALAR, Isa::kPortable}};
  // SupportedTargets() names only vector sets; the static target runs wherever this build runs.
  const int64_t runnable = (hwy::SupportedTargets() | HWY_STATIC_TARGET) & (HWY_TARGETS);
  std::vector<Isa> isas;
  for (const Entry& entry : best_first) {
    if ((runnable & entry.target) != 0 && entry.extended) isas.push_back(entry.isa);
  }
  return isas;
}

int VectorLanes(Isa isa) {
  switch (isa) {
    case Isa::kAvx512Fp16:
    case Isa::kAvx512Vnni:
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

}  // namespace upscaled::cpu
