// The machine of a table.
#pragma once

#include <string>

namespace upscaled::bench {

// "Intel(R) Xeon(R) Processor (family 6, model 143, stepping 8): 2 CPUs, AVX3, avx512_vnni, L1d 48
// KiB, L2 2 MiB, L3 260 MiB, 88 GFLOP/s a core (fp32 FMA), load 0.83": the load is of the last
// minute.
std::string DescribeMachine();

// Prints it as a line above a table.
void PrintMachine();

}  // namespace upscaled::bench
