// Values of tensors as kernels load and store them: `Storage` is float or Half.
#pragma once

#include <cmath>
#include <cstdint>

#include "engine/backends/cuda/kernels/device.h"
#include "engine/backends/cuda/kernels/half_bits.h"
#include "engine/backends/cuda/kernels/tensor_view.h"

namespace upscaled::cuda {

struct Half {
  uint16_t bits;
};

// Aligned for a move by one instruction, up to 16 bytes.
template <typename Storage, int kCount>
struct alignas(sizeof(Storage) * kCount < 16 ? sizeof(Storage) * kCount : 16) Packed {
  Storage values[kCount];
};

UPSCALED_DEVICE float ToFloat(float value) { return value; }
UPSCALED_DEVICE float ToFloat(Half value) { return HalfToFloat(value.bits); }
UPSCALED_DEVICE void Assign(float& to, float value) { to = value; }
UPSCALED_DEVICE void Assign(Half& to, float value) {
  to.bits = fabsf(value) < kHalfEnd ? FloatToHalf(value) : kHalfNan;
}

// kCount adjacent values; `from` and `to` are aligned as Packed.
template <int kCount, typename Storage>
UPSCALED_DEVICE void Load(const Storage* from, float* values) {
  const auto packed = *reinterpret_cast<const Packed<Storage, kCount>*>(from);
#pragma unroll
  for (int i = 0; i < kCount; ++i) values[i] = ToFloat(packed.values[i]);
}
template <int kCount, typename Storage>
UPSCALED_DEVICE void Store(const float* values, Storage* to) {
  Packed<Storage, kCount> packed;
#pragma unroll
  for (int i = 0; i < kCount; ++i) Assign(packed.values[i], values[i]);
  *reinterpret_cast<Packed<Storage, kCount>*>(to) = packed;
}

template <typename Storage>
UPSCALED_DEVICE const Storage* PixelAt(const TensorView& view, int tile, int plane, int x, int y) {
  return static_cast<const Storage*>(view.data) +
         PixelIndex(view, tile, plane, x, y) * kPlaneChannels;
}
template <typename Storage>
UPSCALED_DEVICE Storage* MutablePixelAt(const TensorView& view, int tile, int plane, int x, int y) {
  return static_cast<Storage*>(view.data) + PixelIndex(view, tile, plane, x, y) * kPlaneChannels;
}

}  // namespace upscaled::cuda
