// Pixel shuffles to an image of at most 4 channels. Those without an activation can add another
// image, their second input: cropped, then enlarged to the nearest pixel, as the layer says.
#pragma once

#include <memory>

#include "engine/backends/cpu/kernels/isa.h"
#include "engine/backends/cpu/kernels/kernel.h"
#include "engine/model/network.h"

namespace upscaled::cpu {

bool ImageShuffleSupports(const Layer& layer);
std::unique_ptr<LayerKernel> MakeImageShuffle(const Layer& layer, Isa isa);

}  // namespace upscaled::cpu
