// The cuda backend takes the kernels of a given choice, and lives with a device's refusals.
#include <memory>
#include <string>
#include <vector>

#include "engine/backends/cuda/cuda_backend.h"
#include "engine/backends/cuda/cuda_executable.h"
#include "engine/backends/cuda/kernel_candidate.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/backends/cuda/test_context.h"
#include "tests/engine/backends/tested_layers.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

using cuda::ConvKernel;
using cuda::KernelCandidate;
using test::MakeConv;

// Chooses the last, unlike the shipped choice.
class LastChooser final : public KernelChooser {
 public:
  std::string Choose(const KernelCandidates& candidates) override {
    const Layer& layer = candidates.layer();
    const int group = layer.op == Op::kConvTranspose ? layer.stride_px : 1;
    EXPECT_GT(candidates.checked_output().width, 32 * group);
    EXPECT_GT(candidates.checked_output().height, 32 * group);
    chosen.push_back(candidates.names().back());
    return chosen.back();
  }

  std::vector<std::string> chosen;
};

class CudaCandidatesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto context = test::MakeContext();
    if (absl::IsUnavailable(context.status())) GTEST_SKIP() << context.status();
    ASSERT_TRUE(context.ok()) << context.status();
    context_ = *std::move(context);
  }

  std::mt19937 random_ = test::FreshRandom();
  std::shared_ptr<cuda::Context> context_;
};

// Networks run with any choice, for the layers with a choice.
TEST_F(CudaCandidatesTest, ExecutablesTakeWhatIsChosen) {
  const auto chooser = std::make_shared<LastChooser>();
  BackendOptions options;
  options.chooser = chooser;
  const auto backend = CreateCudaBackend("cuda", options);
  ASSERT_TRUE(backend.ok()) << backend.status();
  Network network;
  network.scale = 2;
  network.layers = {{.op = Op::kInput, .name = "input", .out_channels = 3},
                    MakeConv(Op::kConv, 3, 16, 3, 1, 1, random_),
                    MakeConv(Op::kConvTranspose, 16, 16, 2, 2, 0, random_),
                    MakeConv(Op::kConv, 16, 3, 3, 1, 1, random_)};
  for (int i = 1; i < 4; ++i) network.layers[i].inputs = {i - 1};
  const auto executable = (*backend)->Compile(network, Precision::kFast);
  ASSERT_TRUE(executable.ok()) << executable.status();
  const auto& own = static_cast<const cuda::CudaExecutable&>(**executable);
  std::vector<std::string> used;
  for (const cuda::StepKernel& kernel : own.kernels(Precision::kFast)) {
    if (kernel.conv_kernel() == nullptr) continue;
    const bool transposed = network.layers[kernel.node().main].op == Op::kConvTranspose;
    if (transposed) used.emplace_back(kernel.conv_kernel()->name);
  }
  ASSERT_EQ(used.size(), 1u);
  EXPECT_THAT(chooser->chosen, ::testing::Contains(used.front()));
}

TEST_F(CudaCandidatesTest, WhatADeviceRefusesTakesForeverAndGivesNothing) {
  ConvKernel refused = cuda::ListConvKernels().back();
  refused.launch = [](const cuda::ConvParams&, Precision, const cuda::DeviceLimits&, cudaStream_t) {
    return cudaErrorInvalidConfiguration;
  };
  const Layer layer = MakeConv(Op::kConv, 12, 20, 3, 1, 1, random_);
  KernelCandidate candidate(context_, layer, Precision::kFast, refused, {9, 9});
  candidate.Run();
  EXPECT_EQ(candidate.LastRunTime(), absl::InfiniteDuration());
  EXPECT_TRUE(candidate.Compute(std::vector<float>(12 * 81)).empty());
}

}  // namespace
}  // namespace upscaled
