#include "engine/backends/cuda/kernels/pack_weights.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>

#include "engine/backends/cuda/kernels/columns_mma_kernel.h"
#include "engine/backends/cuda/kernels/conv3x3_mma_kernel.h"
#include "engine/backends/cuda/kernels/conv3x3_wgmma_kernel.h"
#include "engine/backends/cuda/kernels/first_conv_kernel.h"
#include "engine/backends/cuda/kernels/half_bits.h"
#include "engine/backends/cuda/kernels/im2col_ffma_kernel.h"
#include "engine/backends/cuda/kernels/layer_constants.h"
#include "engine/backends/cuda/kernels/ws_variant.h"
#include "engine/base/int_math.h"

namespace upscaled::cuda {
namespace {

// Weights by column, tap and input channel; zero beyond the last.
class Weights {
 public:
  explicit Weights(const FusedConv& layers) : layers_(layers), shape_(ShapeOf(layers)) {}

  const ConvShape& shape() const { return shape_; }
  float At(int column, int tap, int channel) const {
    return WeightAt(layers_, shape_, column, tap / shape_.taps, tap % shape_.taps, channel);
  }
  // The weight of channel `lane` of a virtual plane.
  float AtVirtual(int column, int plane, int lane) const {
    const int planes = PlaneCount(shape_.in_channels), tap = plane / planes;
    if (tap >= shape_.taps * shape_.taps) return 0;
    return At(column, tap, plane % planes * kPlaneChannels + lane);
  }

 private:
  const FusedConv layers_;
  const ConvShape shape_;
};

// Writes halves, or floats, one after the other.
class Writer {
 public:
  explicit Writer(PackedConv& packed) : packed_(packed) {}

  void AddHalf(float value) {
    packed_.half_weights = true;
    Add(FloatToHalfBits(value));
  }
  void AddFloat(float value) { Add(value); }

 private:
  template <typename T>
  void Add(T value) {
    const auto* const first = reinterpret_cast<const uint8_t*>(&value);
    packed_.weights.insert(packed_.weights.end(), first, first + sizeof(value));
  }

  PackedConv& packed_;
};

// A k-step's fragments for `columns` columns: weight_at(column, channel of the step).
template <typename WeightOf>
void AddStep(int columns, const WeightOf& weight_at, Writer& writer) {
  for (int first = 0; first < columns; first += kFragmentColumns) {
    for (int lane = 0; lane < kWarpThreads; ++lane) {
      for (int half = 0; half < 8; ++half) {
        const WeightPlace place = PlaceInFragment(lane, half);
        writer.AddHalf(weight_at(first + place.column, place.channel));
      }
    }
  }
}

int BlockCount(const ConvShape& shape, int columns) { return CeilDiv(shape.Columns(), columns); }

// Zeros beyond the last column, up to whole blocks.
PackedConv WithConstants(const FusedConv& layers, const ConvShape& shape, int columns) {
  return {{}, PackColumnConstants(layers, shape, BlockCount(shape, columns) * columns)};
}

}  // namespace

PackedConv PackConv3x3Mma(const FusedConv& layers, int columns) {
  const Weights weights(layers);
  const ConvShape& shape = weights.shape();
  PackedConv packed = WithConstants(layers, shape, columns);
  Writer writer(packed);
  for (int block = 0; block < BlockCount(shape, columns); ++block) {
    for (int unit = 0; unit < Conv3x3Mma::Units(shape); ++unit) {
      for (int tap = 0; tap < Conv3x3Mma::kTapCount; ++tap) {
        const auto weight_at = [&](int column, int channel) {
          return weights.At(block * columns + column, tap, unit * kStepChannels + channel);
        };
        AddStep(columns, weight_at, writer);
      }
    }
  }
  return packed;
}

PackedConv PackConv3x3Wgmma(const FusedConv& layers) {
  using Tile = Conv3x3Wgmma;
  const Weights weights(layers);
  const ConvShape& shape = weights.shape();
  PackedConv packed = WithConstants(layers, shape, Tile::kColumns);
  packed.half_weights = true;
  for (int block = 0; block < BlockCount(shape, Tile::kColumns); ++block) {
    for (int unit = 0; unit < Tile::Units(shape); ++unit) {
      const size_t first = packed.weights.size();
      packed.weights.resize(first + Tile::kTapCount * Tile::kTapBytes);
      for (int tap = 0; tap < Tile::kTapCount; ++tap) {
        for (int channel = 0; channel < kStepChannels; ++channel) {
          for (int column = 0; column < Tile::kColumns; ++column) {
            const uint16_t half = FloatToHalfBits(
                weights.At(block * Tile::kColumns + column, tap, unit * kStepChannels + channel));
            std::memcpy(&packed.weights[first + Tile::WeightAddress(tap, channel, column)], &half,
                        sizeof(half));
          }
        }
      }
    }
  }
  return packed;
}

PackedConv PackConv3x3Ws(const FusedConv& layers, const WsVariant& variant) {
  const Weights weights(layers);
  const ConvShape& shape = weights.shape();
  const int units = CeilDiv(shape.in_channels, kStepChannels);
  const int blocks = variant.ColumnBlocks(shape), columns = variant.columns();
  PackedConv packed{{}, PackColumnConstants(layers, shape, blocks * columns)};
  packed.half_weights = true;
  packed.weights.resize(size_t{1} * blocks * units * variant.unit_bytes());
  uint8_t* to = packed.weights.data();
  for (int block = 0; block < blocks; ++block) {
    for (int unit = 0; unit < units; ++unit, to += variant.unit_bytes()) {
      for (int tap = 0; tap < shape.taps * shape.taps; ++tap) {
        for (int channel = 0; channel < kStepChannels; ++channel) {
          for (int column = 0; column < columns; ++column) {
            const uint16_t half = FloatToHalfBits(weights.At(
                variant.LayerColumn(shape, block, column), tap, unit * kStepChannels + channel));
            std::memcpy(
                to + variant.WeightAddress(tap / shape.taps, tap % shape.taps, channel, column),
                &half, sizeof(half));
          }
        }
      }
    }
  }
  return packed;
}

PackedConv PackIm2colMma(const FusedConv& layers, int columns) {
  using Tile = Im2colMma;
  const Weights weights(layers);
  const ConvShape& shape = weights.shape();
  PackedConv packed = WithConstants(layers, shape, columns);
  Writer writer(packed);
  for (int block = 0; block < BlockCount(shape, columns); ++block) {
    for (int step = 0; step < Tile::Units(shape.taps, shape.in_channels) * Tile::kSteps; ++step) {
      const auto weight_at = [&](int column, int channel) {
        return weights.AtVirtual(block * columns + column,
                                 step * kStepPlanes + channel / kPlaneChannels,
                                 channel % kPlaneChannels);
      };
      AddStep(columns, weight_at, writer);
    }
  }
  return packed;
}

PackedConv PackColumnsMma(const FusedConv& layers, int columns) {
  using Tile = ColumnsMma;
  const Weights weights(layers);
  const ConvShape& shape = weights.shape();
  PackedConv packed{{}, PackConstants(*layers.conv)};
  Writer writer(packed);
  for (int step = 0; step < Tile::Units(1, shape.in_channels) * Tile::kSteps; ++step) {
    // As TapColumn numbers them.
    const auto weight_at = [&](int tap_column, int channel) -> float {
      if (tap_column >= Tile::TapColumns(shape)) return 0;
      const int group_pixel = tap_column / shape.out_channels;
      const int pixels = shape.out_stride * shape.out_stride;
      const int column =
          group_pixel % pixels * shape.PixelColumns() + tap_column % shape.out_channels;
      return weights.At(column, group_pixel / pixels, step * kStepChannels + channel);
    };
    AddStep(columns, weight_at, writer);
  }
  return packed;
}

PackedConv PackIm2colFfma(const FusedConv& layers, int columns) {
  const Weights weights(layers);
  const ConvShape& shape = weights.shape();
  PackedConv packed = WithConstants(layers, shape, columns);
  Writer writer(packed);
  const int planes = shape.taps * shape.taps * PlaneCount(shape.in_channels);
  for (int block = 0; block < BlockCount(shape, columns); ++block) {
    for (int plane = 0; plane < planes; ++plane) {
      for (int lane = 0; lane < kPlaneChannels; ++lane) {
        for (int column = 0; column < columns; ++column) {
          writer.AddFloat(weights.AtVirtual(block * columns + column, plane, lane));
        }
      }
    }
  }
  return packed;
}

bool FirstConvSupports(const Layer& conv) {
  return conv.op == Op::kConv && conv.kernel_px == FirstConv::kTaps && conv.stride_px == 1 &&
         conv.in_channels == FirstConv::kChannels &&
         PlaneCount(conv.out_channels) <= FirstConv::kMaxPlanes;
}

PackedConv PackFirstConv(const Layer& conv) {
  const Weights weights({&conv});
  PackedConv packed{{}, PackConstants(conv)};
  Writer writer(packed);
  for (int plane = 0; plane < PlaneCount(conv.out_channels); ++plane) {
    for (int tap = 0; tap < FirstConv::kTaps * FirstConv::kTaps; ++tap) {
      for (int channel = 0; channel < FirstConv::kChannels; ++channel) {
        for (int lane = 0; lane < kPlaneChannels; ++lane) {
          writer.AddFloat(weights.At(plane * kPlaneChannels + lane, tap, channel));
        }
      }
    }
  }
  return packed;
}

}  // namespace upscaled::cuda
