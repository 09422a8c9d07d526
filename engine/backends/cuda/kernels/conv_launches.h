// The convolution kernels' launches; conv_kernels.h lists them. `columns`: of a block, as
// conv_choice.h gives them.
#pragma once

#include <cuda_runtime_api.h>

#include "engine/backends/cuda/kernels/conv_params.h"
#include "engine/backends/cuda/kernels/device_limits.h"
#include "engine/model/precision.h"

namespace upscaled::cuda {

cudaError_t LaunchConv3x3Wgmma(const ConvParams& params, const DeviceLimits& device,
                               cudaStream_t stream);
cudaError_t LaunchConv3x3Ws(const ConvParams& params, const DeviceLimits& device,
                            cudaStream_t stream);
cudaError_t LaunchConv3x3Mma(const ConvParams& params, int columns, const DeviceLimits& device,
                             cudaStream_t stream);
cudaError_t LaunchIm2colMma(const ConvParams& params, int columns, cudaStream_t stream);
cudaError_t LaunchColumnsMma(const ConvParams& params, int columns, cudaStream_t stream);
cudaError_t LaunchIm2colFfma(const ConvParams& params, int columns, Precision precision,
                             cudaStream_t stream);

}  // namespace upscaled::cuda
