// Pixel shuffles to an image, with another one added, if the layer has a second input: cropped or
// enlarged to the nearest pixel, as networks add what they read to what they found it lacks.
#pragma once

#include <memory>

#include "engine/backends/cpu/kernels/isa.h"
#include "engine/backends/cpu/kernels/kernel.h"
#include "engine/model/network.h"

namespace upscaled::cpu {

bool ImageShuffleSupports(const Layer& layer);
std::unique_ptr<LayerKernel> MakeImageShuffle(const Layer& layer, Isa isa);

}  // namespace upscaled::cpu
