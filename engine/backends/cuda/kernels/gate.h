// The launch of gate_kernel.h.
#pragma once

#include <cuda_runtime_api.h>

#include "engine/backends/cuda/kernels/gate_params.h"
#include "engine/model/precision.h"

namespace upscaled::cuda {

// `half_weights`: PackedConv's. Factors are of `precision`.
cudaError_t LaunchGate(const GateParams& params, bool half_weights, Precision precision,
                       cudaStream_t stream);

}  // namespace upscaled::cuda
