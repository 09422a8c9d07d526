// The epilogue of halves against the general one, with the same bits.
#include "engine/backends/cuda/kernels/half_epilogue.h"

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "tests/engine/backends/cuda/conv_kernel_fixture.h"
#include "tests/engine/backends/cuda/emulator.h"

namespace upscaled {
namespace {

using cuda::ActivationKind;
using cuda::ConvParams;
using cuda::FusedConv;
using test::Describe;
using test::EmulatedTensor;
using test::MakeConv;
using test::RandomInt;
using test::RandomTensor;
using test::TestedKernel;
using test::TestedKernels;

class HalfEpilogueTest : public test::ConvKernelFixture {
 protected:
  // Values, some large enough for a layer to leave the range of halves.
  reference::Tensor OddTensor(int channels, Size size) {
    reference::Tensor tensor = RandomTensor(channels, size, random_);
    for (const float odd : {65504.0f, -65504.0f, 1e-7f, std::nanf("")}) {
      tensor.values[RandomInt(random_, 0, static_cast<int>(tensor.values.size()) - 1)] = odd;
    }
    test::RoundValues(Precision::kFast, tensor.values);
    return tensor;
  }

  // A clip for the general epilogue. On every value it acts as no activation, or as a ReLU.
  static Layer AsClip(Layer layer) {
    constexpr float kMax = std::numeric_limits<float>::max();
    layer.clip_min = layer.activation == Activation::kRelu ? 0.0f : -kMax;
    layer.clip_max = kMax;
    layer.activation = Activation::kClip;
    return layer;
  }
};

TEST_F(HalfEpilogueTest, ActivatesWithTheBitsOfTheGeneralOne) {
  std::uniform_real_distribution<float> any(-4, 4);
  ConvParams params;
  for (const auto kind : {ActivationKind::kNone, ActivationKind::kRelu, ActivationKind::kSloped}) {
    params.activation.kind = kind;
    for (const float slope : {0.0f, -0.0f, 1.0f, 0.1f, -0.3f, 2.5f, any(random_)}) {
      const int column = RandomInt(random_, 0, 15);
      float constants[2 * cuda::kPlaneConstants] = {};
      float* const own = constants + column / 8 * cuda::kPlaneConstants + column % 8;
      own[0] = RandomInt(random_, 0, 2) == 0 ? 0.0f : any(random_);
      own[cuda::kSlopes] = slope;
      params.constants = constants;
      const cuda::SlopedColumn sloped(params, column);
      for (const float sum : {0.0f, -1e-42f, 1e-42f, -own[0], -3e38f, 3e38f, std::nanf(""),
                              any(random_), any(random_), any(random_)}) {
        const float expected = cuda::Activate(sum + own[0], slope, params.activation);
        ASSERT_EQ(std::bit_cast<uint32_t>(sloped.Apply(sum)), std::bit_cast<uint32_t>(expected))
            << sum << " + " << own[0] << ", slope " << slope << ", kind " << static_cast<int>(kind);
      }
    }
  }
}

// Every kernel with it: tensors in part, batches, residuals of the same or half the resolution,
// transposed and shuffled layers, and values beyond the range of halves.
TEST_F(HalfEpilogueTest, StoresTheBitsOfTheGeneralOne) {
  std::vector<Layer> layers = {MakeConv(Op::kConv, 16, 50, 3, 1, 1, random_),
                               MakeConv(Op::kConv, 20, 72, 3, 1, 0, random_),
                               MakeConv(Op::kConv, 8, 27, 3, 1, 1, random_),
                               MakeConv(Op::kConv, 12, 13, 3, 1, 0, random_),
                               MakeConv(Op::kConv, 12, 70, 2, 2, 0, random_),
                               MakeConv(Op::kConvTranspose, 16, 24, 2, 2, 0, random_),
                               MakeConv(Op::kConvTranspose, 9, 20, 4, 2, 3, random_)};
  const Layer shuffle = test::MakePlain(Op::kPixelShuffle, 64, 16, 2, 0, {0});
  const Layer shuffled = MakeConv(Op::kConv, 16, 64, 3, 1, 1, random_);
  layers.push_back(shuffled);
  for (const TestedKernel& kernel : TestedKernels()) {
    if (!kernel.adds_sums || kernel.takes != nullptr) continue;  // these have both
    for (Layer& layer : layers) {
      layer.activation = RandomInt(random_, 0, 1) == 0 ? Activation::kNone : Activation::kRelu;
      const Layer general_layer = AsClip(layer);
      const bool shuffles = &layer == &layers.back();
      const FusedConv fused{&layer, shuffles ? &shuffle : nullptr};
      const FusedConv general{&general_layer, fused.shuffle};
      if (kernel.columns(cuda::ShapeOf(fused)) == 0) continue;
      const Size in{RandomInt(random_, 1, 18) * 2 + 4, RandomInt(random_, 1, 18) * 2 + 4};
      const Size out = OutputSize(fused, in);
      const int tiles = RandomInt(random_, 1, 2), factor = RandomInt(random_, 1, 2);
      std::vector<reference::Tensor> inputs;
      const int channels = cuda::ShapeOf(fused).out_channels;
      const Size residual_size{(out.width + factor - 1) / factor,
                               (out.height + factor - 1) / factor};
      const Rect whole{0, 0, residual_size.width, residual_size.height};
      EmulatedTensor residual(channels, residual_size, whole, whole, tiles, Precision::kFast);
      for (int tile = 0; tile < tiles; ++tile) {
        inputs.push_back(OddTensor(layer.in_channels, in));
        residual.Fill(tile, OddTensor(channels, residual_size), random_);
      }
      const Rect region = RandomRegion(out);
      for (const bool adds : {false, true}) {
        SCOPED_TRACE(testing::Message() << kernel.name << ", " << Describe(layer) << ", input "
                                        << in.width << "x" << in.height << ", residual " << adds);
        ConvParams params;
        if (adds) params.residual = residual.view();
        params.residual_factor = factor;
        const auto result = Run(kernel, fused, inputs, region, params);
        const auto expected = Run(kernel, general, inputs, region, params);
        // Padding channels of a plane get finite values of any size.
        for (int tile = 0; tile < tiles; ++tile) {
          for (int c = 0; c < channels; ++c) {
            for (int y = region.y; y < region.bottom(); ++y) {
              for (int x = region.x; x < region.right(); ++x) {
                ASSERT_EQ(std::bit_cast<uint32_t>(result->At(tile, c, x, y)),
                          std::bit_cast<uint32_t>(expected->At(tile, c, x, y)))
                    << "channel " << c << " at " << x << ", " << y << " of tile " << tile;
              }
            }
          }
        }
        EXPECT_EQ(result->WrittenOutside(), 0);
      }
    }
  }
}

// stmatrix is the inverse of ldmatrix, and turns a lane's neighbouring pixels into neighbouring
// channels.
TEST_F(HalfEpilogueTest, TurnsMatrices) {
  constexpr int kLanes = cuda::kWarpThreads;
  test::RunEmulated(
      {1, 1, 1, kLanes, 1024},
      [] {
        const int lane = cuda::ThreadIndex();
        const uint32_t row = static_cast<uint32_t>(lane) * 16;
        uint32_t stored[4], loaded[4];
        for (int matrix = 0; matrix < 4; ++matrix) {
          const uint32_t low = matrix * 64 + lane / 4 + lane % 4 * 2 * 8;  // [pixel][channel]
          stored[matrix] = low | (low + 8) << 16;
        }
        cuda::StoreTransposed(row, stored);
        for (uint32_t channel = 0; channel < 8; ++channel) {
          EXPECT_EQ(cuda::SharedAt<const uint16_t>(row)[channel], lane * 8 + channel);
        }
        cuda::LoadTransposed(loaded, row);
        for (int matrix = 0; matrix < 4; ++matrix) EXPECT_EQ(loaded[matrix], stored[matrix]);
      },
      random_);
}

}  // namespace
}  // namespace upscaled
