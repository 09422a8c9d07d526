// The fixture of the tests of emulated convolutions.
#pragma once

#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "engine/backends/cuda/kernels/fused_conv.h"
#include "engine/graph/tile_geometry.h"
#include "gtest/gtest.h"
#include "tests/engine/backends/cuda/emulated_tensor.h"
#include "tests/engine/backends/cuda/tested_kernels.h"
#include "tests/engine/backends/tested_layers.h"
#include "tests/support/test_image.h"

namespace upscaled::test {

// 16-byte aligned, as the device's memory is.
template <typename T>
class AlignedCopy {
 public:
  explicit AlignedCopy(const std::vector<T>& values)
      : units_(values.size() * sizeof(T) / sizeof(Unit) + 1) {
    std::memcpy(units_.data(), values.data(), values.size() * sizeof(T));
  }
  const T* data() const { return reinterpret_cast<const T*>(units_.data()); }

 private:
  struct alignas(16) Unit {
    unsigned char bytes[16];
  };
  std::vector<Unit> units_;
};

inline Rect Around(const Rect& rect) { return Expand(rect, 2); }

class ConvKernelFixture : public testing::Test {
 protected:
  std::mt19937 random_ = FreshRandom();

  static Size OutputSize(const cuda::FusedConv& layers, Size in) {
    Size out{OutputSide(*layers.conv, in.width), OutputSide(*layers.conv, in.height)};
    if (layers.shuffle != nullptr) {
      out = {out.width * layers.shuffle->factor, out.height * layers.shuffle->factor};
    }
    return out;
  }

  Rect RandomRegion(Size size) {
    const int x = RandomInt(random_, 0, size.width - 1);
    const int y = RandomInt(random_, 0, size.height - 1);
    return {x, y, RandomInt(random_, 1, size.width - x), RandomInt(random_, 1, size.height - y)};
  }

  // The pixels that computing `out` reads of the layer, at least one.
  static Rect RegionRead(const cuda::FusedConv& layers, const Rect& out, Size in) {
    Rect of_conv = out;
    if (layers.shuffle != nullptr) {
      const int factor = layers.shuffle->factor;
      of_conv = {out.x / factor, out.y / factor, (out.right() - 1) / factor - out.x / factor + 1,
                 (out.bottom() - 1) / factor - out.y / factor + 1};
    }
    const PixelRange x =
        InputRange(*layers.conv, Axis::kX, {of_conv.x, of_conv.right() - 1}, in.width);
    const PixelRange y =
        InputRange(*layers.conv, Axis::kY, {of_conv.y, of_conv.bottom() - 1}, in.height);
    return Intersect({x.first, y.first, x.last - x.first + 1, y.last - y.first + 1},
                     {0, 0, in.width, in.height});
  }

  static reference::Tensor Expected(const cuda::FusedConv& layers, const reference::Tensor& input,
                                    Size out) {
    const Size conv_size{OutputSide(*layers.conv, input.layer.width),
                         OutputSide(*layers.conv, input.layer.height)};
    reference::Tensor result = ComputeReference(*layers.conv, {input}, conv_size);
    if (layers.shuffle == nullptr) return result;
    return ComputeReference(*layers.shuffle, {result}, out);
  }

  // Factors for the channels of a residual, of one tile.
  EmulatedTensor RandomGate(int channels, Precision precision) {
    EmulatedTensor gate(channels, {1, 1}, {0, 0, 1, 1}, {0, 0, 1, 1}, 1, precision);
    reference::Tensor factors = RandomTensor(channels, {1, 1}, random_);
    RoundValues(precision, factors.values);
    gate.Fill(0, factors, random_);
    return gate;
  }

  // Runs the kernel for `region` and returns its output. It finds inputs for whole blocks of
  // `block_px` pixels of the result.
  std::unique_ptr<EmulatedTensor> Run(const TestedKernel& kernel, const cuda::FusedConv& layers,
                                      const std::vector<reference::Tensor>& inputs,
                                      const Rect& region, cuda::ConvParams params = {},
                                      int block_px = 1) {
    const cuda::ConvShape shape = cuda::ShapeOf(layers);
    const int columns = kernel.columns(shape), tiles = static_cast<int>(inputs.size());
    const cuda::PackedConv packed = kernel.pack(layers, columns);
    const AlignedCopy weights(packed.weights);
    const AlignedCopy constants(packed.constants);
    const Size in = inputs[0].layer, out = OutputSize(layers, in);
    const Rect blocks =
        Intersect(RoundToBlocks(region, block_px, {}), {0, 0, out.width, out.height});
    const Rect read = RegionRead(layers, blocks, in);
    EmulatedTensor src(layers.conv->in_channels, in, Around(read), read, tiles, kernel.precision);
    for (int tile = 0; tile < tiles; ++tile) src.Fill(tile, inputs[tile], random_);
    auto dst = std::make_unique<EmulatedTensor>(shape.out_channels, out, Around(region), region,
                                                tiles, kernel.precision);
    params.shape = shape;
    params.half_epilogue = true;  // a clip's results have the general one
    params.src = src.view();
    params.dst = dst->view();
    params.tiles = tiles;
    params.weights = weights.data();
    params.constants = constants.data();
    params.activation = cuda::ActivationOf(layers);
    kernel.run(params, columns, random_);
    return dst;
  }
};

}  // namespace upscaled::test
