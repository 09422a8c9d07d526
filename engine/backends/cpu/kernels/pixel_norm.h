// Normalisation of each pixel over its channels, in fp32.
#pragma once

#include <memory>

#include "engine/backends/cpu/kernels/isa.h"
#include "engine/backends/cpu/kernels/kernel.h"
#include "engine/model/network.h"

namespace upscaled::cpu {

bool PixelNormSupports(const Layer& layer);
std::unique_ptr<LayerKernel> MakePixelNorm(const Layer& layer, Isa isa);

}  // namespace upscaled::cpu
