// Samples of images as kernels load and store them.
#pragma once

#include <cfloat>
#include <cmath>
#include <cstdint>

#include "engine/backends/cuda/kernels/device.h"
#include "engine/backends/cuda/kernels/tensor_view.h"

namespace upscaled::cuda {

// Into 0..side - 1.
UPSCALED_DEVICE int ClampTo(int at, int side) { return at < 0 ? 0 : (at < side ? at : side - 1); }

// Integers become 0..1.
UPSCALED_DEVICE float LoadSample(const SampleView& view, int64_t index) {
  switch (view.kind) {
    case SampleKind::kU8:
      return static_cast<float>(static_cast<const uint8_t*>(view.data)[index]) * (1.0f / 255);
    case SampleKind::kU16:
      return static_cast<float>(static_cast<const uint16_t*>(view.data)[index]) * (1.0f / 65535);
    case SampleKind::kF32:
      break;
  }
  return static_cast<const float*>(view.data)[index];
}

// To integers of 0..full_scale, rounded half up; NaN becomes 0.
UPSCALED_DEVICE int RoundTo(float value, float full_scale) {
  const float clamped = value > 0.0f ? (value < 1.0f ? value : 1.0f) : 0.0f;
  return static_cast<int>(clamped * full_scale + 0.5f);
}

UPSCALED_DEVICE void StoreSample(float value, const SampleView& view, int64_t index) {
  switch (view.kind) {
    case SampleKind::kU8:
      static_cast<uint8_t*>(view.data)[index] = static_cast<uint8_t>(RoundTo(value, 255.0f));
      break;
    case SampleKind::kU16:
      static_cast<uint16_t*>(view.data)[index] = static_cast<uint16_t>(RoundTo(value, 65535.0f));
      break;
    case SampleKind::kF32:
      static_cast<float*>(view.data)[index] = value;
      break;
  }
}

// The first three of `values` as the pixel (x, y) of a tile.
UPSCALED_DEVICE void StoreRgb(const float* values, const SampleView& view, int tile, int x, int y) {
  const int64_t first = SampleIndex(view, tile, x, y);
  bool finite = true;
#pragma unroll
  for (int c = 0; c < 3; ++c) {
    StoreSample(values[c], view, first + c);
    finite &= fabsf(values[c]) <= FLT_MAX;
  }
  if (!finite && view.lost != nullptr) view.lost[tile] = 1;
}

}  // namespace upscaled::cuda
