// Winograd convolution F(4x4, 3x3) and F(6x6, 3x3) in fp32, F(4x4, 3x3) in fp16, for 3x3 kernels of
// stride 1 between blocked tensors: 4 and 5.06 times fewer multiplications than the direct
// algorithm.
#pragma once

#include <cstddef>
#include <memory>

#include "engine/backends/cpu/kernels/epilogue.h"
#include "engine/backends/cpu/kernels/isa.h"
#include "engine/backends/cpu/kernels/kernel.h"
#include "engine/model/network.h"

namespace upscaled::cpu {

bool WinogradSupports(const Layer& layer);
std::unique_ptr<LayerKernel> MakeWinogradF4(const Layer& layer, Isa isa);
std::unique_ptr<LayerKernel> MakeWinogradF6(const Layer& layer, Isa isa);
std::unique_ptr<LayerKernel> MakeWinogradF4Fp16(const Layer& layer, Isa isa);

// F4 or F6, of this many outputs a side of a block, for a core with a cache of this size: how many
// blocks are computed at a time depends on it, the result does not.
std::unique_ptr<LayerKernel> MakeWinograd(const Layer& layer, Isa isa, int outputs,
                                          size_t cache_bytes);

}  // namespace upscaled::cpu
