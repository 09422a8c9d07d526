// Layers to move or combine values.
#pragma once

#include <cuda_runtime_api.h>

#include "engine/backends/cuda/kernels/elementwise_params.h"
#include "engine/model/precision.h"

namespace upscaled::cuda {

// Computes dst.region. Enqueues on `stream`, may be captured into a graph.
cudaError_t LaunchElementwise(const ElementwiseParams& params, Precision precision,
                              cudaStream_t stream);

}  // namespace upscaled::cuda
