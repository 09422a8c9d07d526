// Convolution as a sum of matrix products ("kn2row": Vasudevan, Anderson, Gregg, "Parallel Multi
// Channel Convolution using General Matrix Multiplication", arXiv:1704.04428), and its derivatives,
// such sums as well:
//
//   dst         = bias + sum over taps of (src shifted by the tap) x W[tap]
//   d_src       = sum over taps of (d_dst shifted the other way) x W[tap]^T
//   d_W[tap]    = (src shifted by the tap)^T x d_dst
//
// The taps of a kernel's line read pixels side by side, as a pixel's channels are: one product sums
// over them all, line after line of an image.
#pragma once

#include <memory>

#include "engine/train/conv_kernel.h"

namespace upscaled::train {

template <typename Real>
std::unique_ptr<ConvKernel<Real>> MakeDirectConv(const ConvShape& shape, cpu::Isa isa);

}  // namespace upscaled::train
