// The treatment of a group's sums in convolution kernels: bias, activation, residual, and stores.
// Kernels bring 8 columns of a group to one thread first (in shared memory), so it moves 16 bytes
// of halves at once and this code stands in a kernel once.
#pragma once

#include "engine/backends/cuda/kernels/conv_params.h"
#include "engine/backends/cuda/kernels/samples.h"
#include "engine/backends/cuda/kernels/storage.h"

namespace upscaled::cuda {

// Tells the host of a wait that gave up: the launch's results are NaN.
UPSCALED_DEVICE void MarkGivenUp(const ConvParams& params) {
  if (params.gave_up != nullptr) *params.gave_up = 1;
}

// The residual's factors of a plane; ones without a gate, which leave a sum as it is.
template <typename Storage>
UPSCALED_DEVICE void LoadGate(const ConvParams& params, int plane, float (&gate)[kPlaneChannels]) {
  const TensorView& view = params.residual_gate;
  if (view.data != nullptr) {
    Load<kPlaneChannels>(PixelAt<Storage>(view, 0, plane, view.rect.x, view.rect.y), gate);
    return;
  }
#pragma unroll
  for (float& factor : gate) factor = 1;
}

// A plane's channels of the result's pixel (x, y). Leaves the stored values in `values`, before
// rounding.
template <typename Storage>
UPSCALED_DEVICE void StorePixel(const ConvParams& params, int plane, int x, int y, int tile,
                                float (&values)[kPlaneChannels]) {
  if (!IsInside(params.dst.region, x, y)) return;
  if (params.residual.data != nullptr) {
    const int from_x = x / params.residual_factor, from_y = y / params.residual_factor;
    float residual[kPlaneChannels], gate[kPlaneChannels];
    Load<kPlaneChannels>(PixelAt<Storage>(params.residual, tile, plane, from_x, from_y), residual);
    LoadGate<Storage>(params, plane, gate);
#pragma unroll
    for (int i = 0; i < kPlaneChannels; ++i) values[i] = fmaf(residual[i], gate[i], values[i]);
  }
  if (params.samples.data == nullptr) {
    Store<kPlaneChannels>(values, MutablePixelAt<Storage>(params.dst, tile, plane, x, y));
  } else if (plane == 0) {
    StoreRgb(values, params.samples, tile, x, y);
  }
}

// A pixel of at most 4 channels, `columns`; the other lanes of its plane are zeroed.
template <typename Storage>
UPSCALED_DEVICE void StoreThinPixel(const ConvParams& params, int pixel, int x, int y, int tile,
                                    const float* columns) {
  const ConvShape& shape = params.shape;
  const int pixel_y = pixel / shape.out_stride, pixel_x = pixel - pixel_y * shape.out_stride;
  if (pixel_y >= shape.out_stride) return;
  float values[kPlaneChannels] = {columns[0], columns[1], columns[2], columns[3]};
  StorePixel<Storage>(params, 0, x * shape.out_stride - shape.crop + pixel_x,
                      y * shape.out_stride - shape.crop + pixel_y, tile, values);
}

// Where a group's 8 columns from `column` (a multiple of 8) on go, if pixels are no thin ones: to a
// plane of one pixel. `x`, `y`: from group * out_stride to the pixel.
struct ColumnsPlace {
  int plane, x, y;

  UPSCALED_DEVICE ColumnsPlace(const ConvShape& shape, int column)
      : plane(column / kPlaneChannels), x(-shape.crop), y(-shape.crop) {
    if (shape.out_stride == 1) return;  // saves the divisions
    const int pixel_columns = shape.PixelColumns(), pixel = column / pixel_columns;
    const int pixel_y = pixel / shape.out_stride, pixel_x = pixel - pixel_y * shape.out_stride;
    plane = (column - pixel * pixel_columns) / kPlaneChannels;
    x += pixel_x;
    y += pixel_y;
  }
};

// The 8 columns from `column` (a multiple of 8) on of the group at (x, y). Skips padding columns.
// Leaves the same in `sums` as StorePixel, if the group is one pixel.
template <typename Storage>
UPSCALED_DEVICE void StoreColumns(const ConvParams& params, int column, int x, int y, int tile,
                                  float (&sums)[kPlaneChannels]) {
  const ConvShape& shape = params.shape;
  const float* const constants = params.constants + column / kPlaneChannels * kPlaneConstants;
  float bias[kPlaneChannels], slope[kPlaneChannels];
  Load<kPlaneChannels>(constants, bias);
  Load<kPlaneChannels>(constants + kSlopes, slope);
#pragma unroll
  for (int i = 0; i < kPlaneChannels; ++i) {
    sums[i] = Activate(sums[i] + bias[i], slope[i], params.activation);
  }
  if (shape.PixelColumns() == kThinColumns) {
    const int pixel = column / kThinColumns;
    StoreThinPixel<Storage>(params, pixel, x, y, tile, sums);
    StoreThinPixel<Storage>(params, pixel + 1, x, y, tile, sums + kThinColumns);
    return;
  }
  if (column >= shape.Columns()) return;
  const ColumnsPlace place(shape, column);
  StorePixel<Storage>(params, place.plane, x * shape.out_stride + place.x,
                      y * shape.out_stride + place.y, tile, sums);
}

}  // namespace upscaled::cuda
