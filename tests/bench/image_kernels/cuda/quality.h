// Sums of squared differences and of SSIM (engine/image/quality.h) over two planes of floats, one
// behind the other.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "engine/base/geometry.h"

namespace upscaled::cuda {

enum class SquaredErrorStep { kNaive, kShared, kShuffles };
enum class SsimStep { kNaive, kShared };

// Floats written by a step before they are added up.
size_t SquaredErrorPartials(Size size);
size_t SsimPartials(SsimStep step, Size size);

// `partials` has room for them; `total` gets their sum, added up by a second pass in one order.
cudaError_t LaunchSquaredError(SquaredErrorStep step, const float* src, Size size, float* partials,
                               double* total, cudaStream_t stream);
// `window`: SsimWindow() as floats.
cudaError_t LaunchSsim(SsimStep step, const float* src, Size size, const float* window,
                       float* partials, double* total, cudaStream_t stream);

}  // namespace upscaled::cuda
