// Which kernels compute a convolution on a device, and by how many columns a block.
#pragma once

#include "engine/backends/cuda/kernels/conv_params.h"
#include "engine/backends/cuda/kernels/device_limits.h"

namespace upscaled::cuda {

// Each gives the columns of one block; 0 when the kernel does not compute this shape there.
int Conv3x3MmaColumns(const ConvShape& shape, const DeviceLimits& device);
int Conv3x3WsColumns(const ConvShape& shape, const DeviceLimits& device);
int Conv3x3WgmmaColumns(const ConvShape& shape, const DeviceLimits& device);
int Im2colMmaColumns(const ConvShape& shape, const DeviceLimits& device);
int ColumnsMmaColumns(const ConvShape& shape, const DeviceLimits& device);  // tap columns
int Im2colFfmaColumns(const ConvShape& shape);

// Whether conv3x3_ws computes this shape with a residual, too.
bool Conv3x3WsAdds(const ConvShape& shape, const DeviceLimits& device);
// The side of the blocks that conv3x3_ws computes whole: 2 for pairs of pixels.
int Conv3x3WsBlock(const ConvShape& shape, const DeviceLimits& device);

}  // namespace upscaled::cuda
