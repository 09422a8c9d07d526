// Changes of layout, see ImageOp.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "engine/base/geometry.h"

namespace upscaled::cuda {

enum class TransposeStep { kNaive, kShared, kPadded, kSeveral };
// A matrix of floats of `size`.
cudaError_t LaunchTranspose(TransposeStep step, const float* src, Size size, float* dst,
                            cudaStream_t stream);

enum class PlanesStep { kNaive, kPixel, kShared };
cudaError_t LaunchToPlanes(PlanesStep step, const uint8_t* src, int64_t pixels, float* dst,
                           cudaStream_t stream);
cudaError_t LaunchFromPlanes(PlanesStep step, const float* src, int64_t pixels, uint8_t* dst,
                             cudaStream_t stream);

}  // namespace upscaled::cuda
