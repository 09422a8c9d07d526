// Every convolution kernel, run thread by thread on the CPU, against the reference: sizes around
// its blocks, every edge, regions anywhere in the layer, batches, and the fused layers.
#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include "tests/engine/backends/cuda/conv_kernel_fixture.h"

namespace upscaled {
namespace {

using cuda::ConvParams;
using cuda::FusedConv;
using test::Describe;
using test::EmulatedTensor;
using test::FreshRandom;
using test::MakeConv;
using test::MakePlain;
using test::RandomInt;
using test::RandomTensor;
using test::SupportedBy;
using test::TestedKernel;
using test::TestedKernels;

// Values are of size 1. Sums are fp32; halves round to one part in 2048.
float Tolerance(Precision precision) { return precision == Precision::kFast ? 4e-3f : 1e-4f; }

class ConvKernelTest : public test::ConvKernelFixture {
 protected:
  void Check(const TestedKernel& kernel, const FusedConv& layers, Size in, int tiles = 1) {
    const Size out = OutputSize(layers, in);
    if (out.width < 1 || out.height < 1) return;
    SCOPED_TRACE(testing::Message()
                 << kernel.name << " " << PrecisionName(kernel.precision) << ", "
                 << Describe(*layers.conv) << (layers.shuffle ? " shuffled" : "") << ", input "
                 << in.width << "x" << in.height << ", " << tiles << " tiles");
    std::vector<reference::Tensor> inputs;
    for (int tile = 0; tile < tiles; ++tile) {
      inputs.push_back(RandomTensor(layers.conv->in_channels, in, random_));
      test::RoundValues(kernel.precision, inputs.back().values);
    }
    const Rect whole{0, 0, out.width, out.height}, part = RandomRegion(out);
    const auto result = Run(kernel, layers, inputs, whole);
    const auto part_result = Run(kernel, layers, inputs, part);
    EXPECT_EQ(result->WrittenOutside(), 0);
    EXPECT_EQ(part_result->WrittenOutside(), 0);
    for (int tile = 0; tile < tiles; ++tile) {
      const reference::Tensor expected = Expected(layers, inputs[tile], out);
      for (int c = 0; c < expected.channels; ++c) {
        for (int y = 0; y < out.height; ++y) {
          for (int x = 0; x < out.width; ++x) {
            const float value = expected.at(c, x, y);
            const float near = Tolerance(kernel.precision) * std::max(1.0f, std::abs(value));
            ASSERT_NEAR(result->At(tile, c, x, y), value, near)
                << "channel " << c << " at " << x << ", " << y << " of tile " << tile;
            if (!cuda::IsInside(part, x, y)) continue;
            ASSERT_EQ(part_result->At(tile, c, x, y), result->At(tile, c, x, y))
                << "computed in " << part.width << "x" << part.height << " at " << part.x << ", "
                << part.y;
          }
        }
      }
    }
  }
};

// Some of the tested layers each time: a kernel takes seconds here.
TEST_F(ConvKernelTest, AgreeWithTheReference) {
  constexpr size_t kLayersOfEach = 6;
  const std::vector<Layer> layers = test::TestedLayers(random_);
  for (const TestedKernel& kernel : TestedKernels()) {
    std::vector<FusedConv> supported = SupportedBy(kernel, layers);
    std::shuffle(supported.begin(), supported.end(), random_);
    supported.resize(std::min(supported.size(), kLayersOfEach));
    for (const FusedConv& fused : supported) {
      Check(kernel, fused, {RandomInt(random_, 1, 36), RandomInt(random_, 1, 18)});
      if (HasFailure()) return;
    }
  }
}

// Several rectangles a block, several blocks of columns, several tiles of a batch.
TEST_F(ConvKernelTest, LargerLayersAndBatches) {
  const std::vector<Layer> layers = {MakeConv(Op::kConv, 40, 72, 3, 1, 1, random_),
                                     MakeConv(Op::kConv, 16, 128, 3, 1, 0, random_),
                                     MakeConv(Op::kConv, 100, 3, 3, 1, 1, random_),
                                     MakeConv(Op::kConvTranspose, 40, 3, 4, 2, 3, random_),
                                     MakeConv(Op::kConvTranspose, 24, 40, 2, 2, 0, random_),
                                     MakeConv(Op::kConvTranspose, 24, 64, 2, 2, 0, random_)};
  for (const TestedKernel& kernel : TestedKernels()) {
    const std::vector<FusedConv> supported = SupportedBy(kernel, layers);
    if (HasFailure()) return;
    const int any = RandomInt(random_, 0, static_cast<int>(supported.size()) - 1);
    Check(kernel, supported[any], {RandomInt(random_, 33, 36), RandomInt(random_, 17, 20)}, 2);
    if (HasFailure()) return;
  }
}

TEST_F(ConvKernelTest, ShufflesPixels) {
  for (const TestedKernel& kernel : TestedKernels()) {
    if (kernel.name == "columns_mma") continue;  // stores one pixel of few channels
    for (const auto& [channels, factor] : {std::pair{3, 2}, {3, 4}, {1, 3}, {12, 2}}) {
      Layer conv = MakeConv(Op::kConv, 20, channels * factor * factor, 3, 1, 1, random_);
      Layer shuffle = MakePlain(Op::kPixelShuffle, conv.out_channels, channels, factor, 0, {0});
      Layer& activated = RandomInt(random_, 0, 1) == 0 ? conv : shuffle;
      activated.activation = Activation::kPRelu;
      activated.slope.resize(activated.out_channels);
      for (float& slope : activated.slope) slope = RandomInt(random_, -8, 8) / 8.0f;
      const FusedConv fused{&conv, &shuffle};
      ASSERT_TRUE(cuda::IsFusable(fused));
      if (kernel.columns(cuda::ShapeOf(fused)) == 0) continue;
      Check(kernel, fused, {RandomInt(random_, 1, 35), RandomInt(random_, 1, 18)});
      if (HasFailure()) return;
    }
  }
}

TEST(FusedConvTest, RefusesWhatDoesNotFit) {
  std::mt19937 random = FreshRandom();
  Layer conv = MakeConv(Op::kConv, 8, 12, 3, 1, 1, random);
  Layer transposed = MakeConv(Op::kConvTranspose, 8, 12, 4, 2, 1, random);
  Layer shuffle = MakePlain(Op::kPixelShuffle, 12, 3, 2, 0, {0});
  EXPECT_TRUE(cuda::IsFusable({&conv, &shuffle}));
  EXPECT_TRUE(cuda::IsFusable({&transposed}));
  EXPECT_FALSE(cuda::IsFusable({&transposed, &shuffle}));
  EXPECT_FALSE(cuda::IsFusable({&shuffle}));
  conv.activation = shuffle.activation = Activation::kRelu;
  EXPECT_FALSE(cuda::IsFusable({&conv, &shuffle}));
}

// A residual of half the resolution, by factors or not, and samples instead of a tensor.
TEST_F(ConvKernelTest, AddsResidualsAndStoresSamples) {
  constexpr int kFactor = 2;
  const Layer last = MakeConv(Op::kConv, 16, 3, 3, 1, 1, random_);
  const Layer before = MakeConv(Op::kConv, 16, 3 * kFactor * kFactor, 3, 1, 1, random_);
  const Layer shuffle = MakePlain(Op::kPixelShuffle, before.out_channels, 3, kFactor, 0, {0});
  for (const TestedKernel& kernel : TestedKernels()) {
    const bool shuffles = kernel.name != "columns_mma";
    const FusedConv fused = shuffles ? FusedConv{&before, &shuffle} : FusedConv{&last};
    if (kernel.columns(cuda::ShapeOf(fused)) == 0) continue;
    SCOPED_TRACE(testing::Message() << kernel.name << " " << PrecisionName(kernel.precision));
    const Size in{RandomInt(random_, 3, 34) * kFactor, RandomInt(random_, 3, 9) * kFactor};
    const Size out = OutputSize(fused, in), half{out.width / kFactor, out.height / kFactor};
    std::vector<reference::Tensor> inputs{RandomTensor(16, in, random_)};
    reference::Tensor residual = RandomTensor(3, half, random_);
    test::RoundValues(kernel.precision, inputs[0].values);
    test::RoundValues(kernel.precision, residual.values);
    const Rect region = RandomRegion(out), whole{0, 0, half.width, half.height};
    EmulatedTensor residual_tensor(3, half, whole, whole, 1, kernel.precision);
    residual_tensor.Fill(0, residual, random_);

    const EmulatedTensor gate = RandomGate(3, kernel.precision);
    const bool gated = RandomInt(random_, 0, 1) == 1;

    std::vector<uint8_t> samples(region.Area() * 3);
    ConvParams params;
    if (gated) params.residual_gate = gate.view();
    params.residual = residual_tensor.view();
    params.residual_factor = kFactor;
    params.samples = {samples.data(), cuda::SampleKind::kU8, 3, region, 0};
    Run(kernel, fused, inputs, region, params);
    const reference::Tensor plain = Expected(fused, inputs[0], out);
    for (int y = region.y; y < region.bottom(); ++y) {
      for (int x = region.x; x < region.right(); ++x) {
        for (int c = 0; c < 3; ++c) {
          const float value = plain.at(c, x, y) + (gated ? gate.At(0, c, 0, 0) : 1) *
                                                      residual.at(c, x / kFactor, y / kFactor);
          const float sample = std::clamp(value, 0.0f, 1.0f) * 255;
          ASSERT_NEAR(samples[cuda::SampleIndex(params.samples, 0, x, y) + c], sample,
                      0.5f + 255 * Tolerance(kernel.precision))
              << "channel " << c << " at " << x << ", " << y;
        }
      }
    }
  }
}

}  // namespace
}  // namespace upscaled
