// The fixture of the tests of kernels on a device: random layers computed by the device and by the
// reference.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "engine/backends/cuda/batch_views.h"
#include "engine/backends/cuda/cuda_kernel_set.h"
#include "engine/backends/cuda/program.h"
#include "engine/backends/cuda/step_kernel.h"
#include "engine/base/status_macros.h"
#include "engine/graph/tile_geometry.h"
#include "gtest/gtest.h"
#include "tests/engine/backends/cuda/device_tensor.h"
#include "tests/engine/backends/cuda/test_context.h"
#include "tests/engine/backends/tested_layers.h"
#include "tests/support/test_image.h"

namespace upscaled::test {

// Relative to the largest value of the result, at least to 1. Sums are fp32 in both.
inline float ToleranceOf(Precision precision) {
  return precision == Precision::kExact ? 5e-5f : 2e-3f;
}

class DeviceKernelTest : public ::testing::Test {
 protected:
  explicit DeviceKernelTest(Precision precision) : precision_(precision) {}

  void SetUp() override {
    auto context = MakeContext();
    if (absl::IsUnavailable(context.status())) GTEST_SKIP() << context.status();
    ASSERT_TRUE(context.ok()) << context.status();
    context_ = *std::move(context);
  }

  // A network of inputs other than images, and the layer behind them.
  static Network NetworkOf(const Layer& layer) {
    Network network;
    network.layers.resize(layer.inputs.size());
    for (Layer& input : network.layers) input.out_channels = layer.in_channels;
    const Operation& operation = OperationOf(layer.op);
    if (operation.takes_moments) {
      network.layers[1].out_channels = static_cast<int>(operation.moments(layer));
    }
    network.layers.push_back(layer);
    return network;
  }

  // Rounded to halves, so the reference computes with the same values.
  std::vector<reference::Tensor> RandomInputs(const Layer& layer, Size in) {
    std::vector<reference::Tensor> inputs;
    for (size_t i = 0; i < layer.inputs.size(); ++i) {
      inputs.push_back(RandomInput(layer, i, in, random_));
      for (float& value : inputs.back().values) value = std::round(value * 64) / 64;
    }
    return inputs;
  }

  // Computes the layer; `tensors`: its inputs and its result, `sums`: the result is added to it.
  // Returns when all is done.
  absl::Status Launch(const Layer& layer, const cuda::ConvKernel* forced,
                      std::vector<cuda::TensorView> tensors, const cuda::PooledSums& sums = {}) {
    const Network network = NetworkOf(layer);
    const int last = static_cast<int>(network.layers.size()) - 1;
    const cuda::CudaKernelSet kernels(context_, precision_);
    ASSIGN_OR_RETURN(const KernelChoice choice, ChooseKernel(kernels, {&layer}, forced, nullptr));
    const cuda::Program program = cuda::BuildProgram(
        {.network = network, .nodes = {{.layers = {last}, .main = last, .inputs = layer.inputs}}});
    ASSIGN_OR_RETURN(
        const cuda::StepKernel kernel,
        cuda::StepKernel::Create(context_, network, program, 0, precision_, choice.info));
    cuda::BatchViews views;
    views.tensors = std::move(tensors);
    if (sums.data != nullptr) {
      views.summed_layer = static_cast<int>(views.tensors.size()) - 1;
      views.sums = sums;
    }
    RETURN_IF_ERROR(kernel.Enqueue(*context_, views, nullptr));
    return context_->Check(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
  }

  // The kernel's result for the inputs in a region of the layer.
  DeviceTensor Run(const Layer& layer, const cuda::ConvKernel* forced,
                   const std::vector<reference::Tensor>& inputs, Size out, const Rect& region) {
    std::vector<DeviceTensor> tensors;
    for (const reference::Tensor& input : inputs) {
      const bool moments = OperationOf(layer.op).takes_moments && !tensors.empty();
      tensors.emplace_back(context_, precision_, input,
                           moments ? input.region : RegionRead(layer, region, input.layer));
    }
    tensors.emplace_back(context_, precision_, layer.out_channels, out, region);
    std::vector<cuda::TensorView> views;
    for (const DeviceTensor& tensor : tensors) views.push_back(tensor.view());
    const absl::Status status = Launch(layer, forced, std::move(views));
    EXPECT_TRUE(status.ok()) << status;
    tensors.back().Download();
    return std::move(tensors.back());
  }

  // The part of an input a plan would compute.
  static Rect RegionRead(const Layer& layer, const Rect& out, Size in) {
    const PixelRange x = InputRange(layer, Axis::kX, {out.x, out.right() - 1}, in.width);
    const PixelRange y = InputRange(layer, Axis::kY, {out.y, out.bottom() - 1}, in.height);
    return Intersect({x.first, y.first, x.last - x.first + 1, y.last - y.first + 1},
                     {0, 0, in.width, in.height});
  }

  // Runs it on random inputs of this size and compares: the whole result, then a part of it.
  void Check(const Layer& layer, const cuda::ConvKernel* forced, Size in) {
    const Size out{OutputSide(layer, in.width), OutputSide(layer, in.height)};
    if (out.width < 1 || out.height < 1) return;
    SCOPED_TRACE(::testing::Message() << (forced ? forced->name : "") << " " << Describe(layer)
                                      << ", input " << in.width << "x" << in.height);
    const std::vector<reference::Tensor> inputs = RandomInputs(layer, in);
    const reference::Tensor expected = ComputeReference(layer, inputs, out);
    Compare(Run(layer, forced, inputs, out, {0, 0, out.width, out.height}), expected);
    Compare(Run(layer, forced, inputs, out, SomePart(out)), expected);
  }

  void Compare(const DeviceTensor& actual, const reference::Tensor& expected) const {
    EXPECT_EQ(actual.WrittenOutside(), 0);
    float largest = 1;
    for (const float value : expected.values) largest = std::max(largest, std::abs(value));
    const Rect& region = actual.view().region;
    for (int c = 0; c < expected.channels; ++c) {
      for (int y = region.y; y < region.bottom(); ++y) {
        for (int x = region.x; x < region.right(); ++x) {
          ASSERT_NEAR(actual.At(c, x, y), expected.at(c, x, y), ToleranceOf(precision_) * largest)
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

  const Precision precision_;
  std::mt19937 random_ = FreshRandom();
  std::shared_ptr<cuda::Context> context_;
};

}  // namespace upscaled::test
