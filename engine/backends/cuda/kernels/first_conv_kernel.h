// The first layers of a network in one: samples of an image, its border, a nearest resize, a 3x3
// convolution to at most 64 channels; in fp32 arithmetic, since 3 channels leave tensor cores idle.
//
// A block computes 64x8 pixels, a thread two neighbouring ones, 8 channels after the other. Shared
// memory holds the weights [plane][tap][input channel][8] and the block's input with its halo.
#pragma once

#include <cstdint>

#include "engine/backends/cuda/kernels/first_conv_params.h"
#include "engine/backends/cuda/kernels/samples.h"
#include "engine/backends/cuda/kernels/storage.h"

namespace upscaled::cuda {

struct FirstConv {
  static constexpr int kTaps = 3, kChannels = 3;
  static constexpr int kWidth = 64, kHeight = 8, kPixels = 2;  // per block, per thread
  static constexpr int kThreads = kWidth * kHeight / kPixels;
  static constexpr int kHaloWidth = kWidth + kTaps - 1, kHaloHeight = kHeight + kTaps - 1;
  static constexpr int kInputs = kTaps * (kPixels + kTaps - 1) * kChannels;  // per thread
  static constexpr int kPlaneWeights = kTaps * kTaps * kChannels * kPlaneChannels;
  static constexpr int kMaxPlanes = 8;

  UPSCALED_HD static constexpr uint32_t InputAddress(int planes) {
    return planes * kPlaneWeights * sizeof(float);
  }
  UPSCALED_HD static constexpr uint32_t SharedBytes(int planes) {
    return InputAddress(planes) + kHaloWidth * kHaloHeight * kChannels * sizeof(float);
  }
};

// The convolution's input at (x, y), channel by channel: zeros outside of the layer, the image's
// edge outside of the image.
UPSCALED_DEVICE void LoadInput(const FirstConvParams& params, int tile, int x, int y, float* to) {
  const Size layer = params.conv_input, image = params.image_size;
  const bool inside = IsInside({0, 0, layer.width, layer.height}, x, y);
  const int from_x = x / params.resize_factor - params.pad_px;
  const int from_y = y / params.resize_factor - params.pad_px;
  const int64_t index =
      SampleIndex(params.image, tile, ClampTo(from_x, image.width), ClampTo(from_y, image.height));
#pragma unroll
  for (int c = 0; c < FirstConv::kChannels; ++c) {
    to[c] = inside ? LoadSample(params.image, index + c) : 0.0f;
  }
}

template <typename Storage>
UPSCALED_DEVICE void RunFirstConv(const FirstConvParams& params) {
  using Tile = FirstConv;
  const int thread = ThreadIndex(), tile = BlockZ();
  const Rect& region = params.dst.region;
  const int block_x = region.x + BlockX() * Tile::kWidth;
  const int block_y = region.y + BlockY() * Tile::kHeight;
  const int planes = PlaneCount(params.dst.channels);
  float* const weights = SharedAt<float>(0);
  float* const inputs = SharedAt<float>(Tile::InputAddress(planes));
  for (int i = thread; i < planes * Tile::kPlaneWeights; i += Tile::kThreads) {
    weights[i] = params.weights[i];
  }
  // Pixels not read by the region may lie outside of `image`.
  for (int i = thread; i < Tile::kHaloWidth * Tile::kHaloHeight; i += Tile::kThreads) {
    const int in_x = i % Tile::kHaloWidth, in_y = i / Tile::kHaloWidth;
    const bool read = block_x + in_x < region.x + region.width + Tile::kTaps - 1 &&
                      block_y + in_y < region.y + region.height + Tile::kTaps - 1;
    if (!read) continue;
    LoadInput(params, tile, block_x + in_x - params.padding_px, block_y + in_y - params.padding_px,
              inputs + i * Tile::kChannels);
  }
  SyncThreads();

  constexpr int kThreadColumns = Tile::kWidth / Tile::kPixels;
  const int in_x = thread % kThreadColumns * Tile::kPixels, in_y = thread / kThreadColumns;
  constexpr int kRowInputs = Tile::kInputs / Tile::kTaps;
  float in[Tile::kInputs];
#pragma unroll
  for (int i = 0; i < Tile::kInputs; ++i) {
    const int row = in_y + i / kRowInputs;
    in[i] = inputs[(row * Tile::kHaloWidth + in_x) * Tile::kChannels + i % kRowInputs];
  }
#pragma unroll 1
  for (int plane = 0; plane < planes; ++plane) {
    float sums[Tile::kPixels][kPlaneChannels] = {};
#pragma unroll
    for (int i = 0; i < Tile::kTaps * Tile::kTaps * Tile::kChannels; ++i) {
      constexpr int kRowWeights = Tile::kTaps * Tile::kChannels;
      float w[kPlaneChannels];
      Load<kPlaneChannels>(weights + plane * Tile::kPlaneWeights + i * kPlaneChannels, w);
#pragma unroll
      for (int p = 0; p < Tile::kPixels; ++p) {
        const float value =
            in[i / kRowWeights * kRowInputs + i % kRowWeights + p * Tile::kChannels];
#pragma unroll
        for (int c = 0; c < kPlaneChannels; ++c) sums[p][c] = fmaf(w[c], value, sums[p][c]);
      }
    }
    float bias[kPlaneChannels], slope[kPlaneChannels];
    Load<kPlaneChannels>(params.constants + plane * kPlaneConstants, bias);
    Load<kPlaneChannels>(params.constants + plane * kPlaneConstants + kSlopes, slope);
#pragma unroll
    for (int p = 0; p < Tile::kPixels; ++p) {
      const int x = block_x + in_x + p, y = block_y + in_y;
      if (!IsInside(region, x, y)) continue;
#pragma unroll
      for (int c = 0; c < kPlaneChannels; ++c) {
        sums[p][c] = Activate(sums[p][c] + bias[c], slope[c], params.activation);
      }
      Store<kPlaneChannels>(sums[p], MutablePixelAt<Storage>(params.dst, tile, plane, x, y));
    }
  }
}

}  // namespace upscaled::cuda
