// The machine's multiply-add rate here and now: the base of every speed: clock changes and noisy
// neighbours cannot fool us.
#pragma once

#include "engine/backends/cpu/kernels/isa.h"

namespace upscaled::bench {

// fp32 GFLOP/s of one thread in the instruction set's vectors; takes about 3 ms.
double FmaPeakGflops(cpu::Isa isa);

}  // namespace upscaled::bench
