// Every listed kernel against the reference: sizes around its blocks, every edge, regions anywhere
// in the layer, and no write outside them; and every launch configuration gives the same bits.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "engine/backends/opencl/kernel_list.h"
#include "engine/backends/opencl/pooling.h"
#include "engine/backends/opencl/tile_tensors.h"
#include "gtest/gtest.h"
#include "tests/engine/backends/opencl/device_tensor.h"
#include "tests/engine/backends/opencl/test_context.h"
#include "tests/engine/backends/tested_layers.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

using opencl::KernelEntry;
using opencl::LaunchConfig;
using test::DeviceTensor;
using test::FreshRandom;
using test::MakeConv;
using test::MakePlain;
using test::OutputSide;
using test::RandomInt;
using test::RandomTensor;
using test::TestedLayers;

// Values are of size 1; sums are fp32.
constexpr float kTolerance = 5e-5f;

class OpenClKernelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto context = test::MakeContext();
    if (absl::IsUnavailable(context.status())) GTEST_SKIP() << context.status();
    ASSERT_TRUE(context.ok()) << context.status();
    context_ = *std::move(context);
    auto launcher = opencl::Launcher::Create(*context_, false);
    ASSERT_TRUE(launcher.ok()) << launcher.status();
    launcher_ = std::make_unique<opencl::Launcher>(*std::move(launcher));
  }

  std::unique_ptr<opencl::LayerKernel> Make(const KernelEntry& info, const Layer& layer,
                                            const LaunchConfig& config) {
    auto kernel = info.create(*context_, layer, Precision::kExact, config);
    EXPECT_TRUE(kernel.ok()) << kernel.status();
    return kernel.ok() ? *std::move(kernel) : nullptr;
  }

  std::vector<reference::Tensor> RandomInputs(const Layer& layer, Size in) {
    std::vector<reference::Tensor> inputs;
    for (size_t i = 0; i < layer.inputs.size(); ++i) {
      inputs.push_back(test::RandomInput(layer, i, in, random_));
    }
    return inputs;
  }

  // The kernel's result for the inputs in a region of the layer.
  DeviceTensor Run(const opencl::LayerKernel& kernel, const Layer& layer,
                   const std::vector<reference::Tensor>& inputs, Size out, const Rect& region) {
    std::vector<opencl::Tensor> src;
    for (const reference::Tensor& input : inputs) {
      const bool moments = layer.op == Op::kGroupNorm && !src.empty();
      const Rect read =
          moments ? input.region : opencl::RectRead(layer, kernel.block_px(), region, input.layer);
      src.push_back(DeviceTensor(*context_, input, read).tensor());
    }
    DeviceTensor dst(*context_, layer.out_channels, out, region);
    const absl::Status status = kernel.Enqueue(*launcher_, src, dst.tensor());
    EXPECT_TRUE(status.ok()) << status;
    dst.Download(launcher_->queue());
    return dst;
  }

  // Runs `info` on random inputs of this size and compares: the whole result, then a part of it.
  void Check(const KernelEntry& info, const Layer& layer, Size in) {
    const Size out{OutputSide(layer, in.width), OutputSide(layer, in.height)};
    if (out.width < 1 || out.height < 1) return;
    SCOPED_TRACE(::testing::Message() << info.name << " " << test::Describe(layer) << ", input "
                                      << in.width << "x" << in.height);
    const std::vector<reference::Tensor> inputs = RandomInputs(layer, in);
    const auto kernel = Make(info, layer, info.configs[0]);
    ASSERT_NE(kernel, nullptr);
    const reference::Tensor expected = test::ComputeReference(layer, inputs, out);
    const Rect whole{0, 0, out.width, out.height};
    Compare(Run(*kernel, layer, inputs, out, whole), expected);
    Compare(Run(*kernel, layer, inputs, out, SomePart(kernel->block_px(), out)), expected);
  }

  std::mt19937 random_ = FreshRandom();
  std::shared_ptr<opencl::Context> context_;
  std::unique_ptr<opencl::Launcher> launcher_;

 private:
  // Whole blocks, or to the layer's end.
  Rect SomePart(int block, Size layer) {
    const int x = RandomInt(random_, 0, (layer.width - 1) / block) * block;
    const int y = RandomInt(random_, 0, (layer.height - 1) / block) * block;
    const int right = RandomInt(random_, x / block + 1, layer.width / block + 1) * block;
    const int bottom = RandomInt(random_, y / block + 1, layer.height / block + 1) * block;
    return {x, y, std::min(right, layer.width) - x, std::min(bottom, layer.height) - y};
  }

  static void Compare(const DeviceTensor& actual, const reference::Tensor& expected) {
    EXPECT_EQ(actual.WrittenOutside(), 0);
    const Rect& region = actual.tensor().region;
    for (int c = 0; c < expected.channels; ++c) {
      for (int y = region.y; y < region.bottom(); ++y) {
        for (int x = region.x; x < region.right(); ++x) {
          ASSERT_NEAR(actual.At(c, x, y), expected.at(c, x, y), kTolerance)
              << "channel " << c << " at " << x << ", " << y;
        }
      }
    }
  }
};

TEST_F(OpenClKernelTest, AgreesWithTheReference) {
  const std::vector<Layer> layers = TestedLayers(random_);
  for (const KernelEntry& info : opencl::ListKernels()) {
    if (info.name == "pooling") continue;  // takes means, see below
    int supported = 0;
    for (const Layer& layer : layers) {
      if (!info.supports(layer)) continue;
      ++supported;
      for (const Size in : {Size{1, 1},
                            {3, 3},
                            {9, 8},
                            {31, 4},
                            {RandomInt(random_, 1, 47), RandomInt(random_, 1, 23)}}) {
        Check(info, layer, in);
        if (HasFailure()) return;
      }
    }
    EXPECT_GT(supported, 0) << info.name << " supports none of the tested layers";
  }
}

// Where floats have no digits left for the position between two pixels.
TEST_F(OpenClKernelTest, BilinearResizeFarFromTheOrigin) {
  Check(**FindForcedKernel("opencl", opencl::ListKernels(), "elementwise"),
        MakePlain(Op::kResizeBilinear, 3, 3, 3, 0, {0}), {20'000, 2});
}

TEST_F(OpenClKernelTest, EveryConfigurationGivesTheSameBits) {
  Layer layers[] = {MakeConv(Op::kConv, 12, 20, 3, 1, 1, random_),
                    MakeConv(Op::kConvTranspose, 12, 20, 4, 2, 1, random_)};
  layers[0].activation = Activation::kSigmoid;
  const Size in{37, 11};
  for (const Layer& layer : layers) {
    const Size out{OutputSide(layer, in.width), OutputSide(layer, in.height)};
    const std::vector<reference::Tensor> inputs = RandomInputs(layer, in);
    for (const KernelEntry& info : opencl::ListKernels()) {
      if (!info.supports(layer)) continue;
      std::vector<float> expected;
      EXPECT_LE(info.configs.size(), 16u);
      for (const LaunchConfig& config : info.configs) {
        SCOPED_TRACE(::testing::Message() << info.name << ", " << Describe(config));
        const auto kernel = Make(info, layer, config);
        ASSERT_NE(kernel, nullptr);
        EXPECT_EQ(kernel->config(), config);
        const DeviceTensor result = Run(*kernel, layer, inputs, out, {0, 0, out.width, out.height});
        if (expected.empty()) expected = result.values();
        const size_t bytes = expected.size() * sizeof(float);
        EXPECT_EQ(std::memcmp(result.values().data(), expected.data(), bytes), 0);
      }
    }
  }
}

// To the last bit as the host adds up, for every part of a layer and all values.
TEST_F(OpenClKernelTest, PooledSumsAreThoseOfTheHost) {
  const Size size{RandomInt(random_, 4090, 9000), 5};  // several runs in a row
  reference::Tensor values = RandomTensor(11, size, random_);
  const float odd[] = {1e30f, -1e30f, 65535.99f, std::nanf(""), -INFINITY, 1e-30f, 0x1.8p-24f};
  for (const float value : odd) {
    values.values[RandomInt(random_, 0, static_cast<int>(values.values.size()) - 1)] = value;
  }
  const DeviceTensor tensor(*context_, values, {0, 0, size.width, size.height});
  for (const Rect part : {Rect{0, 0, size.width, size.height}, Rect{3, 1, size.width - 7, 2},
                          Rect{5, 4, 1, 1}, Rect{5, 5, 0, 0}}) {
    ChannelSums expected(values.channels);
    for (int c = 0; c < values.channels; ++c) {
      for (int y = part.y; y < part.bottom(); ++y) {
        for (int x = part.x; x < part.right(); ++x) {
          expected.Add(c, ChannelSums::Round(values.at(c, x, y)));
        }
      }
    }
    const auto sums =
        opencl::SumUp(*context_, *launcher_, Precision::kExact, tensor.tensor(), part);
    ASSERT_TRUE(sums.ok()) << sums.status();
    EXPECT_EQ(sums->Means(1), expected.Means(1)) << "part of " << part.width << "x" << part.height;
  }
}

TEST_F(OpenClKernelTest, MeansBecomeThePooledLayer) {
  Layer layer = MakePlain(Op::kGlobalAveragePool, 11, 11, 1, 0, {0});
  layer.activation = Activation::kRelu;
  const reference::Tensor means = RandomTensor(11, {1, 1}, random_);
  const auto kernel =
      Make(**FindForcedKernel("opencl", opencl::ListKernels(), "pooling"), layer, {});
  ASSERT_NE(kernel, nullptr);
  const auto src = opencl::UploadMeans(*context_, means.values);
  ASSERT_TRUE(src.ok()) << src.status();
  DeviceTensor dst(*context_, 11, {1, 1}, {0, 0, 1, 1});
  ASSERT_TRUE(kernel->Enqueue(*launcher_, {&*src, 1}, dst.tensor()).ok());
  dst.Download(launcher_->queue());
  for (int c = 0; c < 11; ++c) EXPECT_EQ(dst.At(c, 0, 0), std::max(means.values[c], 0.0f));
}

}  // namespace
}  // namespace upscaled
