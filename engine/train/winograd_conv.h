// Winograd convolution F(6x6, 3x3) and F(4x4, 3x3) and its derivatives, in floats: 5.06 and 4 times
// fewer multiplications than the direct sum. The derivative by the source is a convolution with
// turned weights; the one by the weights is summed up over tiles where the products are
// (kernels/winograd_transforms.h).
#pragma once

#include <memory>

#include "engine/train/conv_kernel.h"

namespace upscaled::train {

// 3x3, more channels than an image has.
bool WinogradConvSupports(const ConvShape& shape);
std::unique_ptr<ConvKernel<float>> MakeWinogradF6Conv(const ConvShape& shape, cpu::Isa isa);
std::unique_ptr<ConvKernel<float>> MakeWinogradF4Conv(const ConvShape& shape, cpu::Isa isa);

}  // namespace upscaled::train
