// This backend's kernel interface: one layer bound to its packed weights, turning rows of its
// inputs into rows of its output.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "engine/backends/cpu/kernels/args.h"
#include "engine/base/geometry.h"
#include "engine/base/int_math.h"

namespace upscaled::cpu {

// Tensors of at most this many channels (images) are interleaved instead of blocked.
inline constexpr int kMaxInterleavedChannels = 4;

// A layer's rows while a tile is computed: a ring of rows in whole-layer coordinates.
//
// Blocked: planes of 16 channels, a pixel 16 adjacent floats (channels beyond the last are finite);
// or, of halves, planes of 32 channels, a pixel 32 adjacent halves, in which addresses and strides
// still count floats. Interleaved: one plane, a pixel `channels` adjacent floats. Everything
// outside the layer reads as zero: the columns next to the region, and rows above and below (one
// zero row per plane).
struct Tensor {
  float* data = nullptr;   // plane 0, ring slot 0, column `left_px`
  int left_px = 0;         // the region's first column
  int layer_width_px = 0;  // the whole layer's, not the region's
  int layer_height_px = 0;
  int ring_rows = 0;  // slots; slot `ring_rows` is the zero row
  int channels = 0;
  bool half = false;     // only blocked tensors
  int pixel_stride = 0;  // floats; 16 when blocked
  size_t row_stride = 0;
  size_t plane_stride = 0;
  // Not null: the factors of the values, one for each channel of a blocked tensor. Only kernels
  // that can are given such tensors (LayerKernel::FactorScratchFloats).
  const float* factors = nullptr;
  size_t factor_plane_stride = 0;

  Size layer_size() const { return {layer_width_px, layer_height_px}; }
  bool blocked() const { return channels > kMaxInterleavedChannels && pixel_stride == 16; }
  int plane_channels() const { return half ? kHalfPlaneChannels : kPlaneChannels; }
  int planes() const {
    return blocked() ? (channels + plane_channels() - 1) / plane_channels() : 1;
  }
  // From plane 0 of a pixel to its value of `channel`. Not of halves.
  size_t ChannelOffset(int channel) const {
    if (!blocked()) return channel;
    return channel / kPlaneChannels * plane_stride + channel % kPlaneChannels;
  }
  // Plane 0 at pixel (x, y) of the layer.
  float* At(int y, int x) const {
    const bool inside = y >= 0 && y < layer_height_px;
    const size_t slot = inside ? y % ring_rows : ring_rows;
    return data + slot * row_stride + static_cast<ptrdiff_t>(x - left_px) * pixel_stride;
  }
};

// How far beyond its own rows a kernel may read of its first input: columns left of the input
// region that must be zero if the layer ends there, and the same right of it.
struct Margin {
  int left_px = 0;
  int right_px = 0;
};

// Immutable, thread safe.
class LayerKernel {
 public:
  virtual ~LayerKernel() = default;

  // Computes `rows` (whole-layer coordinates; all columns of the region or some) of `dst`, and
  // writes nothing else, nor throws: others compute the rest at the same time. The inputs hold
  // every row for these. Rows and columns begin with whole blocks, of which a part may lie before
  // the layer, and columns with whole windows of attention, of which a part may lie before the
  // region: it is not stored. `scratch` has ScratchFloats() floats, 64-byte aligned.
  virtual void Run(std::span<const Tensor> src, const Tensor& dst, const Rect& rows,
                   float* scratch) const = 0;

  // Rows and columns are computed in blocks of this size.
  virtual int block_px() const { return 1; }
  virtual Margin margin() const { return {}; }
  virtual size_t ScratchFloats() const { return 0; }
  // The scratch that it needs instead where inputs have factors; nullopt: it cannot read those.
  virtual std::optional<size_t> FactorScratchFloats() const { return std::nullopt; }
  virtual size_t WeightBytes() const { return 0; }
};

}  // namespace upscaled::cpu
