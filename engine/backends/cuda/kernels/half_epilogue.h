// The epilogue of results in halves with at most a slope of negative values as activation: sums are
// activated and rounded in their own lanes. A warp passes 32 pixels of a plane at a time through
// 512 bytes of shared memory, [pixel][8 halves], so each lane stores a pixel by 16 bytes. The
// residual takes the same way in, and sums of global poolings are read there. epilogue.h does
// everything else, with the same results.
#pragma once

#include <cstdint>

#include "engine/backends/cuda/kernels/conv_params.h"
#include "engine/backends/cuda/kernels/device.h"
#include "engine/backends/cuda/kernels/epilogue.h"
#include "engine/backends/cuda/kernels/storage.h"

namespace upscaled::cuda {

// 8 channels of a pixel, and the bytes of 32 pixels of a plane.
using PackedPixel = Packed<uint32_t, 4>;
inline constexpr uint32_t kPassedBytes = kWarpThreads * sizeof(PackedPixel);

// Whether this epilogue serves a launch.
UPSCALED_DEVICE bool StoresHalves(const ConvParams& params) {
  return params.half_epilogue && params.samples.data == nullptr &&
         params.shape.PixelColumns() != kThinColumns &&
         params.activation.kind <= ActivationKind::kSloped;
}

// Activates sums of one column in three operations, with the bits of Activate.
struct SlopedColumn {
  float bias, slope;
  // Added to the slope's result: a ReLU's -0 becomes 0, all else stays.
  float zero;

  UPSCALED_DEVICE SlopedColumn(const ConvParams& params, int column) {
    const float* const constants =
        params.constants + column / kPlaneChannels * kPlaneConstants + column % kPlaneChannels;
    const ActivationKind kind = params.activation.kind;
    bias = constants[0];
    slope = kind == ActivationKind::kSloped ? constants[kSlopes]
            : kind == ActivationKind::kRelu ? 0.0f
                                            : 1.0f;
    zero = kind == ActivationKind::kRelu ? 0.0f : -0.0f;
  }
  UPSCALED_DEVICE float Apply(float sum) const {
    const float value = sum + bias;
    return value < 0 ? fmaf(value, slope, zero) : value;
  }
};

UPSCALED_DEVICE float LowHalf(uint32_t pair) { return HalfToFloat(static_cast<uint16_t>(pair)); }
UPSCALED_DEVICE float HighHalf(uint32_t pair) {
  return HalfToFloat(static_cast<uint16_t>(pair >> 16));
}

// A plane of one pixel, stored by one lane.
struct LanePixel {
  int tile, plane, x, y;

  // The plane and pixel where a group's 8 columns go.
  UPSCALED_DEVICE LanePixel(const ConvShape& shape, const ColumnsPlace& columns, int group_x,
                            int group_y, int in_tile)
      : tile(in_tile),
        plane(columns.plane),
        x(group_x * shape.out_stride + columns.x),
        y(group_y * shape.out_stride + columns.y) {}

  UPSCALED_DEVICE void PassResidual(const ConvParams& params, uint32_t to) const {
    if (!IsInside(params.dst.region, x, y)) return;
    const int from_x = x / params.residual_factor, from_y = y / params.residual_factor;
    *SharedAt<PackedPixel>(to) = *reinterpret_cast<const PackedPixel*>(
        PixelAt<Half>(params.residual, tile, plane, from_x, from_y));
  }
  UPSCALED_DEVICE void Store(const ConvParams& params, uint32_t from) const {
    if (!IsInside(params.dst.region, x, y)) return;
    *reinterpret_cast<PackedPixel*>(MutablePixelAt<Half>(params.dst, tile, plane, x, y)) =
        *SharedAt<const PackedPixel>(from);
  }
};

}  // namespace upscaled::cuda
