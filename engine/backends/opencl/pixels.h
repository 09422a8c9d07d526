// Between images in the host's memory and tensors: kernels/pixels.cl.
#pragma once

#include "absl/status/status.h"
#include "engine/backends/opencl/context.h"
#include "engine/backends/opencl/launcher.h"
#include "engine/backends/opencl/tensor.h"
#include "engine/image/image.h"
#include "engine/model/precision.h"

namespace upscaled::opencl {

// A buffer that host and device both reach quickly; grows to the largest size seen. Of one stream.
class TransferBuffer {
 public:
  // A buffer of at least `bytes`.
  absl::StatusOr<cl::Buffer> Reserve(const Context& context, size_t bytes);

 private:
  cl::Buffer buffer_;
  size_t bytes_ = 0;
};

// Enqueues the filling of dst.region, part of a padded image, with values of 0..1: the samples of
// `src`, which covers `src_rect` of the image, replicating the image's border of `pad_px`. The
// samples are copied before this returns.
absl::Status LoadPixels(Context& context, Launcher& launcher, TransferBuffer& transfer,
                        const ImageView& src, const Rect& src_rect, Size image, int pad_px,
                        Precision precision, const Tensor& dst);

// Writes `result`, a part of src.region, as RGB samples to the first three channels of `dst`, a
// image of that size, and waits for it.
absl::Status StorePixels(Context& context, Launcher& launcher, TransferBuffer& transfer,
                         const Tensor& src, Precision precision, const Rect& result,
                         const MutableImageView& dst);

}  // namespace upscaled::opencl
