// The kernels' instruction sets. The choice is made when a network is compiled (functions of one
// set are picked then), never globally, so one process can run them all.
#pragma once

#include <string_view>
#include <vector>

namespace upscaled::cpu {

// Each of the three with AVX-512 has everything of the later ones; their fp32 code is the same.
enum class Isa { kAvx512Fp16, kAvx512Vnni, kAvx512, kAvx2, kSse4, kNeon, kPortable };

// "avx512_fp16", "avx512_vnni", "avx512", "avx2", "sse4", "neon", "portable".
std::string_view IsaName(Isa isa);

// The instruction sets in this build and on this machine, best first; never empty.
std::vector<Isa> ListIsas();

// Channels in one fp32 vector.
int VectorLanes(Isa isa);

// Whether kernels of 16-bit floats run, and kernels of 16-bit integers: either makes precision
// 'fast'.
inline bool HasFp16(Isa isa) { return isa == Isa::kAvx512Fp16; }
inline bool HasVnni(Isa isa) { return HasFp16(isa) || isa == Isa::kAvx512Vnni; }

}  // namespace upscaled::cpu
