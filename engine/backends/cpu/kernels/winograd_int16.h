// Winograd convolution F(4x4, 3x3) in products of 16-bit integers, for 3x3 kernels of stride 1
// between blocked tensors of halves (a result of one plane may be floats): twice as many
// multiplications at a time as fp32 has, on CPUs with AVX512_VNNI, and four more bits than fp16's.
// The worth of integers is fixed when the kernel is made, for inputs of a certain size. Beyond it
// the results become NaN.
#pragma once

#include <memory>

#include "engine/backends/cpu/kernels/int16_scales.h"
#include "engine/backends/cpu/kernels/isa.h"
#include "engine/backends/cpu/kernels/kernel.h"
#include "engine/model/network.h"

namespace upscaled::cpu {

bool WinogradInt16Supports(const Layer& layer);

// For any inputs within +-4.
std::unique_ptr<LayerKernel> MakeWinogradF4Int16(const Layer& layer, Isa isa);
// For inputs whose transform has these ranges, [point x * 6 + y][input channel], and twice as large
// ones.
std::unique_ptr<LayerKernel> MakeCalibratedWinogradF4Int16(const Layer& layer,
                                                           const InputRanges& ranges);

// `kernel`, of fp32 and with the same blocks, that also raises `ranges` to those of what it reads.
// `ranges` outlives it; not thread safe.
std::unique_ptr<LayerKernel> MakeRangeObserver(const Layer& layer,
                                               std::unique_ptr<LayerKernel> kernel,
                                               InputRanges& ranges);

}  // namespace upscaled::cpu
