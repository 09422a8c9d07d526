// Between images and tensors, where no convolution does it.
#pragma once

#include <cuda_runtime_api.h>

#include "engine/backends/cuda/kernels/tensor_view.h"
#include "engine/model/precision.h"

namespace upscaled::cuda {

// Fills dst.region, part of a padded image, with values of 0..1. `src` covers the needed part of
// the image. The image's edge is repeated beyond it.
cudaError_t LaunchLoadPixels(const SampleView& src, Size image_size, int pad_px,
                             const TensorView& dst, int tiles, Precision precision,
                             cudaStream_t stream);

// Writes dst.rect, part of src.region, as RGB samples; integers are clamped and rounded half up,
// NaN becomes 0.
cudaError_t LaunchStorePixels(const TensorView& src, const SampleView& dst, int tiles,
                              Precision precision, cudaStream_t stream);

}  // namespace upscaled::cuda
