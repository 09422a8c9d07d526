// Layers to move or combine values: one thread per pixel and plane; blocks [pixels][plane][tile].
#pragma once

#include "engine/backends/cuda/kernels/elementwise_params.h"
#include "engine/backends/cuda/kernels/samples.h"
#include "engine/backends/cuda/kernels/storage.h"
#include "engine/base/int_math.h"

namespace upscaled::cuda {

struct Elementwise {
  static constexpr int kThreads = 256;
};

// A pixel of a tile's plane.
struct PlanePixel {
  int tile, plane;
  int x, y;
};

// This thread's; false when the region has ended.
UPSCALED_DEVICE bool FindPixel(const Rect& region, PlanePixel& pixel) {
  const int index = BlockX() * Elementwise::kThreads + ThreadIndex();
  const int y = index / region.width;
  pixel = {BlockZ(), BlockY(), region.x + index - y * region.width, region.y + y};
  return y < region.height;
}

// The first of the two neighbours of output `at` along an axis, and the weight of the second. In
// whole numbers: far from the origin floats have no digits left for the fraction.
UPSCALED_DEVICE int Blend(int at, int factor, float& weight) {
  const int twice = 2 * at + 1 - factor, period = 2 * factor;  // 2 * factor * source coordinate
  const int first = FloorDiv(twice, period);
  weight = static_cast<float>(twice - first * period) / static_cast<float>(period);
  return first;
}

// As PadSource of engine/graph.
UPSCALED_DEVICE int PadSource(int position, int side, PadKind pad) {
  const int period = 2 * (side - 1);
  if (pad == PadKind::kReplicate || period == 0) return ClampTo(position, side);
  const int phase = position - FloorDiv(position, period) * period;
  return phase < period - phase ? phase : period - phase;
}

template <typename Storage>
UPSCALED_DEVICE void LoadPlane(const TensorView& src, const PlanePixel& at, int x, int y,
                               float (&values)[kPlaneChannels]) {
  Load<kPlaneChannels>(PixelAt<Storage>(src, at.tile, at.plane, x, y), values);
}

template <typename Storage>
UPSCALED_DEVICE void ResizeBilinear(const ElementwiseParams& params, const PlanePixel& at,
                                    float (&values)[kPlaneChannels]) {
  const Size layer = params.src0.layer;
  float right, below;
  const int first_x = Blend(at.x, params.factor, right);
  const int first_y = Blend(at.y, params.factor, below);
  const int x0 = ClampTo(first_x, layer.width), x1 = ClampTo(first_x + 1, layer.width);
  const int y0 = ClampTo(first_y, layer.height), y1 = ClampTo(first_y + 1, layer.height);
  float corners[4][kPlaneChannels];
  LoadPlane<Storage>(params.src0, at, x0, y0, corners[0]);
  LoadPlane<Storage>(params.src0, at, x1, y0, corners[1]);
  LoadPlane<Storage>(params.src0, at, x0, y1, corners[2]);
  LoadPlane<Storage>(params.src0, at, x1, y1, corners[3]);
#pragma unroll
  for (int i = 0; i < kPlaneChannels; ++i) {
    const float top = fmaf(corners[1][i] - corners[0][i], right, corners[0][i]);
    const float bottom = fmaf(corners[3][i] - corners[2][i], right, corners[2][i]);
    values[i] = fmaf(bottom - top, below, top);
  }
}

template <typename Storage>
UPSCALED_DEVICE void Pad(const ElementwiseParams& params, const PlanePixel& at,
                         float (&values)[kPlaneChannels]) {
  const Size layer = params.src0.layer;
  const int x = at.x - params.padding_px, y = at.y - params.padding_px;
  if (params.pad == PadKind::kConstant && !IsInside({0, 0, layer.width, layer.height}, x, y)) {
#pragma unroll
    for (int i = 0; i < kPlaneChannels; ++i) values[i] = params.pad_value;
    return;
  }
  LoadPlane<Storage>(params.src0, at, PadSource(x, layer.width, params.pad),
                     PadSource(y, layer.height, params.pad), values);
}

template <typename Storage>
UPSCALED_DEVICE float LoadChannel(const TensorView& src, int tile, int channel, int x, int y) {
  return ToFloat(
      PixelAt<Storage>(src, tile, channel / kPlaneChannels, x, y)[channel % kPlaneChannels]);
}

template <typename Storage>
UPSCALED_DEVICE void ShufflePixels(const ElementwiseParams& params, const PlanePixel& at,
                                   float (&values)[kPlaneChannels]) {
  const int factor = params.factor, x = at.x / factor, y = at.y / factor;
  const int offset = (at.y - y * factor) * factor + at.x - x * factor;
#pragma unroll
  for (int i = 0; i < kPlaneChannels; ++i) {
    const int channel = at.plane * kPlaneChannels + i;
    if (channel < params.dst.channels) {
      values[i] =
          LoadChannel<Storage>(params.src0, at.tile, channel * factor * factor + offset, x, y);
    }
  }
}

// Channels before `first_channel` in the plane are another input's, from an earlier launch.
template <typename Storage>
UPSCALED_DEVICE void Concatenate(const ElementwiseParams& params, const PlanePixel& at,
                                 float (&values)[kPlaneChannels]) {
#pragma unroll
  for (int i = 0; i < kPlaneChannels; ++i) {
    const int channel = at.plane * kPlaneChannels + i - params.first_channel;
    if (channel >= 0 && channel < params.src0.channels) {
      values[i] = LoadChannel<Storage>(params.src0, at.tile, channel, at.x, at.y);
    }
  }
}

template <typename Storage>
UPSCALED_DEVICE void Slice(const ElementwiseParams& params, const PlanePixel& at,
                           float (&values)[kPlaneChannels]) {
#pragma unroll
  for (int i = 0; i < kPlaneChannels; ++i) {
    const int channel = at.plane * kPlaneChannels + i;
    if (channel < params.dst.channels) {
      values[i] =
          LoadChannel<Storage>(params.src0, at.tile, params.sliced_channel + channel, at.x, at.y);
    }
  }
}

// Each thread finds the pixel's means again, of all its planes.
template <typename Storage>
UPSCALED_DEVICE void NormalisePixel(const ElementwiseParams& params, const PlanePixel& at,
                                    const float* constants, float (&values)[kPlaneChannels]) {
  const int channels = params.src0.channels;
  float mean = 0, square = 0;
  for (int c = 0; params.centred && c < channels; ++c) {
    mean += LoadChannel<Storage>(params.src0, at.tile, c, at.x, at.y);
  }
  mean /= static_cast<float>(channels);
  for (int c = 0; c < channels; ++c) {
    const float difference = LoadChannel<Storage>(params.src0, at.tile, c, at.x, at.y) - mean;
    square = fmaf(difference, difference, square);
  }
  const float scale = 1 / sqrtf(square / static_cast<float>(channels) + params.epsilon);
  LoadPlane<Storage>(params.src0, at, at.x, at.y, values);
#pragma unroll
  for (int i = 0; i < kPlaneChannels; ++i) {
    values[i] = fmaf((values[i] - mean) * scale, constants[kFactors + i], constants[i]);
  }
}

// Each thread finds the moments of its channels' groups again.
template <typename Storage>
UPSCALED_DEVICE void NormaliseGroups(const ElementwiseParams& params, const PlanePixel& at,
                                     const float* constants, float (&values)[kPlaneChannels]) {
  const int channels = params.src0.channels, group = params.group_channels;
  const auto size = static_cast<float>(group);
  LoadPlane<Storage>(params.src0, at, at.x, at.y, values);
  float mean = 0, scale = 0;
#pragma unroll
  for (int i = 0; i < kPlaneChannels; ++i) {
    const int channel = at.plane * kPlaneChannels + i;
    if (channel < channels && (i == 0 || channel % group == 0)) {
      const int first = channel - channel % group;
      float sum = 0, squares = 0;
      for (int c = first; c < first + group; ++c) {
        sum += LoadChannel<Storage>(params.src1, at.tile, c, 0, 0);
        squares += LoadChannel<Storage>(params.src1, at.tile, channels + c, 0, 0);
      }
      mean = sum / size;
      const float variance = fmaf(-mean, mean, squares / size);
      scale = 1 / sqrtf((variance > 0 ? variance : 0) + params.epsilon);
    }
    values[i] = fmaf((values[i] - mean) * scale, constants[kFactors + i], constants[i]);
  }
}

// The values of the result, before its activation; zero where a layer has no channel.
template <typename Storage>
UPSCALED_DEVICE void ComputeElements(const ElementwiseParams& params, const PlanePixel& at,
                                     const float* constants, float (&values)[kPlaneChannels]) {
  const int factor = params.factor;
  float other[kPlaneChannels];
  switch (params.kind) {
    case ElementwiseKind::kCrop:
      LoadPlane<Storage>(params.src0, at, at.x + params.crop_px, at.y + params.crop_px, values);
      break;
    case ElementwiseKind::kAdd:
      LoadPlane<Storage>(params.src0, at, at.x, at.y, values);
      LoadPlane<Storage>(params.src1, at, at.x, at.y, other);
#pragma unroll
      for (int i = 0; i < kPlaneChannels; ++i) values[i] += other[i];
      break;
    case ElementwiseKind::kMul:
    case ElementwiseKind::kMulChannels: {
      const bool one_pixel = params.kind == ElementwiseKind::kMulChannels;
      LoadPlane<Storage>(params.src0, at, at.x, at.y, values);
      LoadPlane<Storage>(params.src1, at, one_pixel ? 0 : at.x, one_pixel ? 0 : at.y, other);
#pragma unroll
      for (int i = 0; i < kPlaneChannels; ++i) values[i] *= other[i];
      break;
    }
    case ElementwiseKind::kAffine:
      LoadPlane<Storage>(params.src0, at, at.x, at.y, values);
#pragma unroll
      for (int i = 0; i < kPlaneChannels; ++i) {
        values[i] = values[i] * constants[kFactors + i] + constants[i];
      }
      break;
    case ElementwiseKind::kResizeNearest:
      LoadPlane<Storage>(params.src0, at, at.x / factor, at.y / factor, values);
      break;
    case ElementwiseKind::kResizeBilinear:
      ResizeBilinear<Storage>(params, at, values);
      break;
    case ElementwiseKind::kPad:
      Pad<Storage>(params, at, values);
      break;
    case ElementwiseKind::kPixelShuffle:
      ShufflePixels<Storage>(params, at, values);
      break;
    case ElementwiseKind::kSlice:
      Slice<Storage>(params, at, values);
      break;
    case ElementwiseKind::kPixelNorm:
      NormalisePixel<Storage>(params, at, constants, values);
      break;
    case ElementwiseKind::kGroupNorm:
      NormaliseGroups<Storage>(params, at, constants, values);
      break;
    case ElementwiseKind::kConcat:
      Concatenate<Storage>(params, at, values);
      break;
  }
}

// The planes of a launch's output: of all its channels, or of those of a concatenation's input.
UPSCALED_HD inline int FirstPlane(const ElementwiseParams& params) {
  return params.first_channel / kPlaneChannels;
}
UPSCALED_HD inline int WrittenPlanes(const ElementwiseParams& params) {
  if (params.kind != ElementwiseKind::kConcat) return PlaneCount(params.dst.channels);
  return PlaneCount(params.first_channel % kPlaneChannels + params.src0.channels);
}

template <typename Storage>
UPSCALED_DEVICE void RunElementwise(const ElementwiseParams& params) {
  PlanePixel at;
  if (!FindPixel(params.dst.region, at)) return;
  at.plane += FirstPlane(params);
  const float* const constants = params.constants + at.plane * kPlaneConstants;
  float values[kPlaneChannels] = {}, slope[kPlaneChannels];
  ComputeElements<Storage>(params, at, constants, values);
  Load<kPlaneChannels>(constants + kSlopes, slope);
  Storage* const to = MutablePixelAt<Storage>(params.dst, at.tile, at.plane, at.x, at.y);
#pragma unroll
  for (int i = 0; i < kPlaneChannels; ++i) {
    values[i] = Activate(values[i], slope[i], params.activation);
  }
  const int kept = params.first_channel - at.plane * kPlaneChannels;
  if (kept <= 0) {
    Store<kPlaneChannels>(values, to);
    return;
  }
#pragma unroll
  for (int i = 0; i < kPlaneChannels; ++i) {
    if (i >= kept) Assign(to[i], values[i]);
  }
}

}  // namespace upscaled::cuda
