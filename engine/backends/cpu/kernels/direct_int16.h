// Direct convolution in products of 16-bit integers, of any kernel size and stride and transposed,
// from blocked tensors of halves or from images: twice as many multiplications at a time as fp32
// has, on CPUs with AVX512_VNNI. As winograd_int16.h: what integers are worth is fixed when the
// kernel is made, and results of larger inputs become NaN.
#pragma once

#include <memory>

#include "engine/backends/cpu/kernels/int16_scales.h"
#include "engine/backends/cpu/kernels/isa.h"
#include "engine/backends/cpu/kernels/kernel.h"
#include "engine/model/network.h"

namespace upscaled::cpu {

bool DirectInt16Supports(const Layer& layer);

// For inputs within +-8.
std::unique_ptr<LayerKernel> MakeDirectInt16(const Layer& layer, Isa isa);
// For inputs with these ranges, one per channel, and twice as large ones.
std::unique_ptr<LayerKernel> MakeCalibratedDirectInt16(const Layer& layer,
                                                       const InputRanges& ranges);

// `kernel`, of the same layer in fp32, that also raises `ranges` to those of what it reads.
// `ranges` outlives it; not thread safe.
std::unique_ptr<LayerKernel> MakeChannelObserver(const Layer& layer,
                                                 std::unique_ptr<LayerKernel> kernel,
                                                 InputRanges& ranges);

}  // namespace upscaled::cpu
