// Weights in the orders of the convolution kernels' reads.
#pragma once

#include "engine/backends/cuda/kernels/fused_conv.h"

namespace upscaled::cuda {

struct WsVariant;

// `columns`: of a block, as the kernels' ...Columns functions say.
PackedConv PackConv3x3Mma(const FusedConv& layers, int columns);
PackedConv PackConv3x3Ws(const FusedConv& layers, const WsVariant& variant);
PackedConv PackConv3x3Wgmma(const FusedConv& layers);
PackedConv PackIm2colMma(const FusedConv& layers, int columns);
PackedConv PackColumnsMma(const FusedConv& layers, int columns);
PackedConv PackIm2colFfma(const FusedConv& layers, int columns);

// For LaunchFirstConv: a 3x3 kConv with stride 1 from 3 channels to at most 64.
bool FirstConvSupports(const Layer& conv);
PackedConv PackFirstConv(const Layer& conv);

}  // namespace upscaled::cuda
