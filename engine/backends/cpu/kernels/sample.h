// Samples between pixels at places computed from the image (kSample), in fp32.
#pragma once

#include <memory>

#include "engine/backends/cpu/kernels/isa.h"
#include "engine/backends/cpu/kernels/kernel.h"
#include "engine/model/network.h"

namespace upscaled::cpu {

bool SampleSupports(const Layer& layer);
std::unique_ptr<LayerKernel> MakeSample(const Layer& layer, Isa isa);

}  // namespace upscaled::cpu
