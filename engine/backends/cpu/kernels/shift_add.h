// Convolutions (also transposed) from many channels to an image, split in two: a 1x1 convolution
// from the input to one value per (tap of the kernel, output channel), then this kernel, to add the
// taps where they belong. The first part keeps vectors full although an image has three channels;
// the second is a few additions per pixel.
#pragma once

#include <memory>

#include "engine/backends/cpu/kernels/isa.h"
#include "engine/backends/cpu/kernels/kernel.h"
#include "engine/model/network.h"

namespace upscaled::cpu {

// Whether splitting `layer` pays.
bool ShiftAddSupports(const Layer& layer);

// Channels between the two parts: tap (ky * kernel + kx) * out_channels + o, padded to whole
// planes and interleaved.
int TapChannels(const Layer& layer);

// The first part of `layer`, without its inputs.
Layer TapProducts(const Layer& layer);

// The second part; its source is an interleaved tensor of TapChannels().
std::unique_ptr<LayerKernel> MakeShiftAdd(const Layer& layer, Isa isa);

}  // namespace upscaled::cpu
