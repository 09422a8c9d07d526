// Between images and tensors: one thread per pixel.
#pragma once

#include "engine/backends/cuda/kernels/elementwise_kernel.h"
#include "engine/backends/cuda/kernels/samples.h"
#include "engine/backends/cuda/kernels/storage.h"

namespace upscaled::cuda {

struct LoadPixelsParams {
  SampleView src;
  Size image_size;
  int pad_px;
  TensorView dst;
};

struct StorePixelsParams {
  TensorView src;
  SampleView dst;
};

template <typename Storage>
UPSCALED_DEVICE void RunLoadPixels(const LoadPixelsParams& params) {
  PlanePixel at;
  if (!FindPixel(params.dst.region, at)) return;
  const int64_t from =
      SampleIndex(params.src, at.tile, ClampTo(at.x - params.pad_px, params.image_size.width),
                  ClampTo(at.y - params.pad_px, params.image_size.height));
  float values[kPlaneChannels] = {};
#pragma unroll
  for (int c = 0; c < 3; ++c) values[c] = LoadSample(params.src, from + c);
  Store<kPlaneChannels>(values, MutablePixelAt<Storage>(params.dst, at.tile, 0, at.x, at.y));
}

template <typename Storage>
UPSCALED_DEVICE void RunStorePixels(const StorePixelsParams& params) {
  PlanePixel at;
  if (!FindPixel(params.dst.rect, at)) return;
  float values[kPlaneChannels];
  LoadPlane<Storage>(params.src, at, at.x, at.y, values);
  StoreRgb(values, params.dst, at.tile, at.x, at.y);
}

}  // namespace upscaled::cuda
