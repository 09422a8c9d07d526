// Every kernel on the device against the reference, in both precisions: layers of every kind, sizes
// around their blocks, every edge, regions anywhere in the layer, and no write outside them.
#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "engine/backends/cuda/batch_layout.h"
#include "engine/backends/cuda/kernels/first_conv.h"
#include "engine/backends/cuda/kernels/pooling.h"
#include "engine/backends/cuda/step_kernel.h"
#include "engine/backends/reference/layers.h"
#include "engine/graph/pooling.h"
#include "engine/graph/tile_geometry.h"
#include "engine/model/half.h"
#include "engine/model/shapes.h"
#include "gtest/gtest.h"
#include "tests/engine/backends/cuda/device_tensor.h"
#include "tests/engine/backends/cuda/test_context.h"
#include "tests/engine/backends/tested_layers.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

using cuda::BatchViews;
using cuda::ConvKernel;
using cuda::Program;
using cuda::Step;
using cuda::StepKernel;
using test::DeviceTensor;
using test::FreshRandom;
using test::MakeConv;
using test::MakePlain;
using test::OutputSide;
using test::RandomInt;
using test::RandomTensor;

// Relative to the largest value of the result, at least to 1. Sums are fp32 in both.
float ToleranceOf(Precision precision) { return precision == Precision::kExact ? 5e-5f : 2e-3f; }

class CudaDeviceKernelTest : public ::testing::TestWithParam<Precision> {
 protected:
  void SetUp() override {
    auto context = test::MakeContext();
    if (absl::IsUnavailable(context.status())) GTEST_SKIP() << context.status();
    ASSERT_TRUE(context.ok()) << context.status();
    context_ = *std::move(context);
  }

  // A network of inputs that are no pictures, and the layer behind them.
  static Network NetworkOf(const Layer& layer) {
    Network network;
    network.layers.resize(layer.inputs.size());
    for (Layer& input : network.layers) input.out_channels = layer.in_channels;
    network.layers.push_back(layer);
    return network;
  }

  // As halves hold them, so that the reference computes with the same.
  std::vector<reference::Tensor> RandomInputs(const Layer& layer, Size in) {
    std::vector<reference::Tensor> inputs;
    for (size_t i = 0; i < layer.inputs.size(); ++i) {
      inputs.push_back(RandomTensor(layer.in_channels, in, random_));
      for (float& value : inputs.back().values) value = std::round(value * 64) / 64;
    }
    return inputs;
  }

  // What the kernel makes of the inputs in a region of the result.
  DeviceTensor Run(const Layer& layer, const ConvKernel* forced,
                   const std::vector<reference::Tensor>& inputs, Size out, const Rect& region) {
    const Network network = NetworkOf(layer);
    Program program = cuda::BuildProgram(network, [](const Layer&) { return false; });
    const Step& step = program.steps.back();
    auto kernel = StepKernel::Create(context_, network, program, step, GetParam(), forced);
    EXPECT_TRUE(kernel.ok()) << kernel.status();
    BatchViews views;
    std::vector<DeviceTensor> tensors;
    for (const reference::Tensor& input : inputs) {
      tensors.emplace_back(context_, GetParam(), input, RegionRead(layer, region, input.layer));
    }
    tensors.emplace_back(context_, GetParam(), layer.out_channels, out, region);
    for (const DeviceTensor& tensor : tensors) views.tensors.push_back(tensor.view());
    const absl::Status status = kernel->Enqueue(*context_, views, nullptr);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    tensors.back().Download();
    return std::move(tensors.back());
  }

  // The part of an input that a plan would have computed.
  static Rect RegionRead(const Layer& layer, const Rect& out, Size in) {
    const PixelRange x = InputRange(layer, {out.x, out.right() - 1}, in.width);
    const PixelRange y = InputRange(layer, {out.y, out.bottom() - 1}, in.height);
    return Intersect({x.first, y.first, x.last - x.first + 1, y.last - y.first + 1},
                     {0, 0, in.width, in.height});
  }

  // Runs it on random inputs of this size and compares: the whole result, then a part of it.
  void Check(const Layer& layer, const ConvKernel* forced, Size in) {
    const Size out{OutputSide(layer, in.width), OutputSide(layer, in.height)};
    if (out.width < 1 || out.height < 1) return;
    SCOPED_TRACE(::testing::Message()
                 << (forced ? forced->name : "") << " " << test::Describe(layer) << ", input "
                 << in.width << "x" << in.height);
    const std::vector<reference::Tensor> inputs = RandomInputs(layer, in);
    const reference::Tensor expected = Reference(layer, inputs, out);
    Compare(Run(layer, forced, inputs, out, {0, 0, out.width, out.height}), expected);
    Compare(Run(layer, forced, inputs, out, SomePart(out)), expected);
  }

  static reference::Tensor Reference(const Layer& layer,
                                     const std::vector<reference::Tensor>& inputs, Size out) {
    std::vector<const reference::Tensor*> pointers;
    for (const reference::Tensor& input : inputs) pointers.push_back(&input);
    reference::Tensor result({0, 0, out.width, out.height}, layer.out_channels);
    reference::ComputeLayer(layer, pointers, result);
    return result;
  }

  void Compare(const DeviceTensor& actual, const reference::Tensor& expected) const {
    EXPECT_EQ(actual.WrittenOutside(), 0);
    float largest = 1;
    for (const float value : expected.values) largest = std::max(largest, std::abs(value));
    const Rect& region = actual.view().region;
    for (int c = 0; c < expected.channels; ++c) {
      for (int y = region.y; y < region.bottom(); ++y) {
        for (int x = region.x; x < region.right(); ++x) {
          ASSERT_NEAR(actual.At(c, x, y), expected.at(c, x, y), ToleranceOf(GetParam()) * largest)
              << "channel " << c << " at " << x << ", " << y;
        }
      }
    }
  }

  Rect SomePart(Size layer) {
    const int x = RandomInt(random_, 0, layer.width - 1);
    const int y = RandomInt(random_, 0, layer.height - 1);
    return {x, y, RandomInt(random_, 1, layer.width - x), RandomInt(random_, 1, layer.height - y)};
  }

  std::vector<Size> TestedSizes() {
    return {{1, 1},  {3, 3},   {9, 8},
            {31, 4}, {70, 33}, {RandomInt(random_, 1, 47), RandomInt(random_, 1, 23)}};
  }

  std::mt19937 random_ = FreshRandom();
  std::shared_ptr<cuda::Context> context_;
};

TEST_P(CudaDeviceKernelTest, ConvolutionsAgreeWithTheReference) {
  const std::vector<Layer> layers = test::TestedLayers(random_);
  for (const ConvKernel& kernel : cuda::ListConvKernels()) {
    int supported = 0;
    for (const Layer& layer : layers) {
      const cuda::FusedConv fused{&layer, nullptr};
      if (!IsFusable(fused) || !kernel.supports(fused, GetParam(), context_->device().limits)) {
        continue;
      }
      ++supported;
      for (const Size in : TestedSizes()) {
        Check(layer, &kernel, in);
        if (HasFailure()) return;
      }
    }
    // Some kernels are of one precision or of newer devices.
    std::printf("%s: %d of the tested layers\n", std::string(kernel.name).c_str(), supported);
  }
}

TEST_P(CudaDeviceKernelTest, OtherLayersAgreeWithTheReference) {
  for (const Layer& layer : test::TestedLayers(random_)) {
    if (cuda::IsFusable({&layer, nullptr})) continue;
    for (const Size in : TestedSizes()) {
      Check(layer, nullptr, in);
      if (HasFailure()) return;
    }
  }
}

// Where floats have no digits left for the position between two pixels.
TEST_P(CudaDeviceKernelTest, BilinearResizeFarFromTheOrigin) {
  Check(MakePlain(Op::kResizeBilinear, 3, 3, 3, 0, {0}), nullptr, {20'000, 2});
}

// To the last unit as the host adds up, for every part of a layer.
TEST_P(CudaDeviceKernelTest, PooledSumsAreThoseOfTheHost) {
  const Size size{RandomInt(random_, 4090, 9000), 5};
  reference::Tensor values = RandomTensor(11, size, random_);
  for (float& value : values.values) value = std::round(value * 64) / 64;
  if (GetParam() == Precision::kExact) {
    for (const float value : {1e30f, -1e30f, 65535.99f, std::nanf(""), 1e-30f, 0x1.8p-24f}) {
      const int last = static_cast<int>(values.values.size()) - 1;
      values.values[RandomInt(random_, 0, last)] = value;
    }
  }
  const DeviceTensor tensor(context_, GetParam(), values, {0, 0, size.width, size.height});
  for (const Rect part :
       {Rect{0, 0, size.width, size.height}, Rect{3, 1, size.width - 7, 2}, Rect{5, 4, 1, 1}}) {
    std::vector<int64_t> sums(16);
    auto memory = cuda::Upload(context_, std::as_bytes(std::span(sums)), "sums");
    ASSERT_TRUE(memory.ok()) << memory.status();
    auto* const on_device = reinterpret_cast<int64_t*>(memory->data());
    ASSERT_EQ(cuda::LaunchSumChannels(tensor.view(), part, 1, GetParam(), on_device, nullptr),
              cudaSuccess);
    ASSERT_EQ(cudaMemcpy(sums.data(), on_device, sums.size() * 8, cudaMemcpyDeviceToHost),
              cudaSuccess);
    ChannelSums expected(values.channels), actual(values.channels);
    for (int c = 0; c < values.channels; ++c) {
      actual.Add(c, static_cast<double>(sums[c]) / (1 << 24));
      for (int y = part.y; y < part.bottom(); ++y) {
        for (int x = part.x; x < part.right(); ++x) {
          expected.Add(c, ChannelSums::Round(values.at(c, x, y)));
        }
      }
    }
    EXPECT_EQ(actual.Means(1), expected.Means(1)) << "part of " << part.width << "x" << part.height;
  }
}

INSTANTIATE_TEST_SUITE_P(Precisions, CudaDeviceKernelTest,
                         ::testing::Values(Precision::kExact, Precision::kFast),
                         [](const auto& info) { return std::string(PrecisionName(info.param)); });

}  // namespace
}  // namespace upscaled
