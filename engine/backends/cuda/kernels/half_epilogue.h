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
  float gate;  // of the residual

  UPSCALED_DEVICE SlopedColumn(const ConvParams& params, int column) {
    const float* const constants =
        params.constants + column / kPlaneChannels * kPlaneConstants + column % kPlaneChannels;
    const ActivationKind kind = params.activation.kind;
    bias = constants[0];
    slope = kind == ActivationKind::kSloped ? constants[kSlopes]
            : kind == ActivationKind::kRelu ? 0.0f
                                            : 1.0f;
    zero = kind == ActivationKind::kRelu ? 0.0f : -0.0f;
    gate = 1;
    const TensorView& gates = params.residual_gate;
    if (gates.data == nullptr || column >= params.shape.Columns()) return;
    const int channel = column % params.shape.PixelColumns();
    gate = ToFloat(PixelAt<Half>(gates, 0, channel / kPlaneChannels, gates.rect.x,
                                 gates.rect.y)[channel % kPlaneChannels]);
  }
  UPSCALED_DEVICE float Apply(float sum) const {
    const float value = sum + bias;
    return value < 0 ? fmaf(value, slope, zero) : value;
  }
  UPSCALED_DEVICE float Add(float value, float residual) const {
    return fmaf(residual, gate, value);
  }
};

UPSCALED_DEVICE float LowHalf(uint32_t pair) { return HalfToFloat(static_cast<uint16_t>(pair)); }
UPSCALED_DEVICE float HighHalf(uint32_t pair) {
  return HalfToFloat(static_cast<uint16_t>(pair >> 16));
}

// The pixels of a plane that one lane stores: a column of groups, by the row of groups.
struct LanePixels {
  // The plane and pixel where 8 columns of the group go, in row 0.
  UPSCALED_DEVICE LanePixels(const ConvParams& params, const ColumnsPlace& columns, int group_x,
                             int group_y, int tile)
      : tile_(tile),
        plane_(columns.plane),
        x_(group_x * params.shape.out_stride + columns.x),
        first_y_(group_y * params.shape.out_stride + columns.y - params.dst.region.y),
        rows_(IsInside(params.dst.region, x_, params.dst.region.y) ? params.dst.region.height : 0),
        row_bytes_(params.dst.rect.width * sizeof(PackedPixel)),
        first_row_(reinterpret_cast<unsigned char*>(
            MutablePixelAt<Half>(params.dst, tile, plane_, x_, params.dst.region.y))) {}

  UPSCALED_DEVICE void PassResidual(const ConvParams& params, int row, uint32_t to) const {
    const int y = RegionRow(params, row);
    if (!IsInRegion(y)) return;
    const int from_x = x_ / params.residual_factor;
    const int from_y = (y + params.dst.region.y) / params.residual_factor;
    *SharedAt<PackedPixel>(to) = *reinterpret_cast<const PackedPixel*>(
        PixelAt<Half>(params.residual, tile_, plane_, from_x, from_y));
  }
  UPSCALED_DEVICE void Store(const ConvParams& params, int row, uint32_t from) const {
    const int y = RegionRow(params, row);
    if (!IsInRegion(y)) return;
    const uint64_t offset = uint64_t{static_cast<uint32_t>(y)} * row_bytes_;  // one instruction
    *reinterpret_cast<PackedPixel*>(first_row_ + offset) = *SharedAt<const PackedPixel>(from);
  }

 private:
  UPSCALED_DEVICE int RegionRow(const ConvParams& params, int row) const {
    return first_y_ + row * params.shape.out_stride;
  }
  UPSCALED_DEVICE bool IsInRegion(int y) const {
    return static_cast<unsigned>(y) < static_cast<unsigned>(rows_);
  }

  int tile_, plane_, x_;
  int first_y_;  // of row 0, from the region's first
  int rows_;     // of the region; none beside it
  uint32_t row_bytes_;
  unsigned char* first_row_;  // the pixel in the region's first row
};

}  // namespace upscaled::cuda
