// Weights in the order in which the convolution kernels read them.
#pragma once

#include <vector>

#include "engine/model/network.h"

namespace upscaled::opencl {

// [out plane][in plane][ky][kx][in lane][out lane] of a kConv or kConvTranspose; zeros beyond the
// last channels.
std::vector<float> PackDirect(const Layer& layer);

// The same of a kGroupedConv, with zeros between channels of different groups.
std::vector<float> PackGrouped(const Layer& layer);

// [plane][ky][kx][lane] of a kGroupedConv of as many groups as channels.
std::vector<float> PackDepthwise(const Layer& layer);

// [out plane][in plane][ky][in lane][6 points][out lane] of a 3x3 kConv: every row of a kernel
// transformed by G of F(4, 3).
std::vector<float> PackWinogradRow4(const Layer& layer);

}  // namespace upscaled::opencl
