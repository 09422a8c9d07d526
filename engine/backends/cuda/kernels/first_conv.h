// Launches of first_conv_kernel.h.
#pragma once

#include <cuda_runtime_api.h>

#include "engine/backends/cuda/kernels/first_conv_params.h"
#include "engine/model/precision.h"

namespace upscaled::cuda {

// pack_weights.h names the supported shapes. Enqueues on `stream`, may be captured into a graph.
cudaError_t LaunchFirstConv(const FirstConvParams& params, Precision precision,
                            cudaStream_t stream);

}  // namespace upscaled::cuda
