// Instruction sets that the kernels are compiled for. The choice is made when a network is compiled
// (functions of one set are picked then), never globally, so that one process can run them all.
#pragma once

#include <string_view>
#include <vector>

namespace upscaled::cpu {

enum class Isa { kAvx512, kAvx2, kSse4, kNeon, kPortable };

// "avx512", "avx2", "sse4", "neon", "portable".
std::string_view IsaName(Isa isa);

// The instruction sets that this build holds and this machine runs, best first; never empty.
std::vector<Isa> ListIsas();

// Channels in one fp32 vector.
int VectorLanes(Isa isa);

// Whether fp16 kernels run beside this set: AVX-512 on a machine with AVX512-FP16, in a build whose
// compiler knows it.
bool HasFp16(Isa isa);

}  // namespace upscaled::cpu
