// cuBLAS and the CUDA runtime as training uses them, over the host's memory.
#pragma once

#include <cstddef>

#include "engine/train/cuda/cublas.h"

namespace upscaled::test {

// Memory begins as NaN. Products refuse what cuBLAS would refuse.
train::CublasApi HostCublas();

// Lets that many more allocations succeed; then memory is out.
void SetHostCublasAllocations(int count);
// Allocations that are not freed.
int HostCublasAllocations();

}  // namespace upscaled::test
