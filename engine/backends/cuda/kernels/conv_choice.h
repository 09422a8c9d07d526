// The kernels for a convolution on a device, and their columns per block.
#pragma once

#include "engine/backends/cuda/kernels/conv_params.h"
#include "engine/backends/cuda/kernels/device_limits.h"

namespace upscaled::cuda {

struct WsVariant;

// Each gives the columns of one block; 0 when the kernel does not compute this shape there.
int Conv3x3MmaColumns(const ConvShape& shape, const DeviceLimits& device);
int Conv3x3WgmmaColumns(const ConvShape& shape, const DeviceLimits& device);
int Im2colMmaColumns(const ConvShape& shape, const DeviceLimits& device);
int ColumnsMmaColumns(const ConvShape& shape, const DeviceLimits& device);  // tap columns
int Im2colFfmaColumns(const ConvShape& shape);

// The first blocking of conv3x3_ws for this shape; null: none does. All blockings with as many
// pixels a group and the same kind of result take the same weights. `adds`: with a residual.
const WsVariant* FindWsVariant(const ConvShape& shape, bool adds, const DeviceLimits& device);

}  // namespace upscaled::cuda
