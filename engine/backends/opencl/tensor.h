// A rectangle of one layer's output in the device's memory; kernels/common.cl describes the layout.
#pragma once

#include <cstddef>

#include "engine/backends/opencl/cl.h"
#include "engine/base/geometry.h"
#include "engine/model/precision.h"

namespace upscaled::opencl {

// Channels in a plane.
inline constexpr int kPlaneChannels = 8;

// Pixels behind the last that kernels may read, for results that they do not store: up to 8 pixels
// a work-item with strides of up to 16.
inline constexpr size_t kSlackPixels = 128;

constexpr int PlaneCount(int channels) { return (channels + kPlaneChannels - 1) / kPlaneChannels; }

constexpr size_t StorageBytes(Precision precision) { return precision == Precision::kFast ? 2 : 4; }

// For programs over tensors of this precision.
constexpr const char* StorageOption(Precision precision) {
  return precision == Precision::kFast ? "-DHALF_STORAGE" : "";
}

// Values, including the slack, of a tensor that holds `rect` of a layer.
inline size_t TensorValues(const Rect& rect, int channels) {
  const size_t pixels = static_cast<size_t>(rect.Area()) * PlaneCount(channels) + kSlackPixels;
  return pixels * kPlaneChannels;
}

struct Tensor {
  cl::Buffer buffer;
  Rect rect;    // the pixels in it, in whole-layer coordinates; zeros outside the layer
  Rect region;  // the part of `rect` inside the layer: what is computed
  Size layer;   // the whole layer's
  int channels = 0;

  int planes() const { return PlaneCount(channels); }
};

}  // namespace upscaled::opencl
