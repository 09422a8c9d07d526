// The opencl backend's own choice of kernels, and its use of a given choice.

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/autotune/tuner.h"
#include "engine/backends/opencl/kernel_candidate.h"
#include "engine/backends/opencl/opencl_backend.h"
#include "engine/backends/opencl/opencl_executable.h"
#include "engine/backends/opencl/opencl_kernel_set.h"
#include "engine/model/op.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/backends/opencl/test_context.h"
#include "tests/engine/backends/tested_layers.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

using opencl::ConfigOf;
using opencl::KernelCandidate;
using opencl::KernelEntry;
using opencl::LaunchConfig;
using opencl::OpenClKernelSet;
using test::MakeConv;
using ::testing::StartsWith;

class OpenClChoiceTest : public ::testing::Test {
 protected:
  std::mt19937 random_ = test::FreshRandom();
  Layer layer_ = MakeConv(Op::kConv, 12, 20, 3, 1, 1, random_);
};

TEST_F(OpenClChoiceTest, EveryLayerHasAtMostSixteenChoicesAndMakersTheirOwnFirst) {
  opencl::Device device;
  device.platform = "some platform";
  const auto rank = [&](const Layer& layer) {
    const auto context = std::make_shared<opencl::Context>(device, cl::Context(), std::nullopt);
    return RankKernels(OpenClKernelSet(context, Precision::kExact), {&layer});
  };
  std::vector<Layer> layers = test::TestedLayers(random_);
  for (const char* vendor : {"NVIDIA Corporation", "Advanced Micro Devices, Inc.",
                             "Intel(R) Corporation", "Somebody else"}) {
    device.vendor = vendor;
    for (const Layer& layer : layers) {
      const std::vector<KernelChoice> choices = rank(layer);
      // Layers computed only exactly have no kernel here: their networks run on the CPU.
      ASSERT_EQ(choices.empty(), IsExactOnly(layer)) << test::Describe(layer);
      EXPECT_LE(choices.size(), kMaxChoices) << test::Describe(layer);
      for (const KernelChoice& choice : choices) {
        EXPECT_TRUE(static_cast<const KernelEntry*>(choice.info)->supports(layer));
      }
    }
  }
  EXPECT_EQ(ConfigOf(rank(layer_)[0]), opencl::ListKernels()[0].configs[0]);
  device.vendor = "NVIDIA Corporation";
  EXPECT_EQ(ConfigOf(rank(layer_)[0]), (LaunchConfig{4, {32, 1, 1}}));
  device.platform = "Portable Computing Language, OpenCL 3.0 PoCL 3.1";
  const KernelChoice first = rank(layer_)[0];
  EXPECT_EQ(first.info->name, "winograd_row4");
  EXPECT_EQ(ConfigOf(first), (LaunchConfig{4, {4, 4, 8}}));
}

class OpenClCandidateTest : public OpenClChoiceTest {
 protected:
  void SetUp() override {
    auto context = test::MakeContext();
    if (absl::IsUnavailable(context.status())) GTEST_SKIP() << context.status();
    ASSERT_TRUE(context.ok()) << context.status();
    context_ = *std::move(context);
  }

  std::string Choose(KernelChooser* chooser, const Layer& layer) {
    const OpenClKernelSet kernels(context_, Precision::kExact);
    const auto choice = ChooseKernel(kernels, {&layer}, nullptr, chooser);
    EXPECT_TRUE(choice.ok()) << choice.status();
    return kernels.NameOf(*choice);
  }

  std::shared_ptr<opencl::Context> context_;
};

TEST_F(OpenClCandidateTest, WhatADeviceRefusesTakesForeverAndGivesNothing) {
  static constexpr LaunchConfig kConfig[] = {{4, {1, 1, 1}}};
  static const KernelEntry kRefused{
      {"refused"},
      (*FindForcedKernel("opencl", opencl::ListKernels(), "conv"))->supports,
      [](opencl::Context&, const Layer&, Precision,
         const LaunchConfig&) -> absl::StatusOr<std::unique_ptr<opencl::LayerKernel>> {
        return absl::ResourceExhaustedError("no registers left");
      },
      kConfig};
  KernelCandidate candidate(context_, layer_, Precision::kExact, {&kRefused, 0}, {9, 9});
  candidate.Run();
  EXPECT_EQ(candidate.LastRunTime(), absl::InfiniteDuration());
  EXPECT_TRUE(candidate.Compute(std::vector<float>(12 * 81)).empty());
}

// The whole way: measured once, kept in a file, taken from there by the next start.
TEST_F(OpenClCandidateTest, TunerMeasuresOnceAndKeepsWhatItFound) {
  const std::filesystem::path file = ::testing::TempDir() + "/opencl_candidates_test.json";
  std::filesystem::remove(file);
  const Layer layer = MakeConv(Op::kConvTranspose, 9, 3, 4, 2, 3, random_);
  const auto warn = [](const std::string& text) { ADD_FAILURE() << text; };
  auto measuring = Tuner::Create({.file = file, .measure = true, .warn = warn});
  ASSERT_TRUE(measuring.ok()) << measuring.status();
  const std::string found = Choose(measuring->get(), layer);
  EXPECT_THAT(found, StartsWith("transposed, "));
  auto loading = Tuner::Create({.file = file, .warn = warn});
  ASSERT_TRUE(loading.ok()) << loading.status();
  EXPECT_EQ(Choose(loading->get(), layer), found);
  const opencl::Device& device = context_->device;
  const TuningTable table = (*loading)->table();
  const TuningEntry* const entry =
      table.Find("opencl, " + device.model + ", " + device.platform + ", " + device.driver,
                 TuningKey(layer, Precision::kExact));
  ASSERT_NE(entry, nullptr);
  EXPECT_EQ(entry->choice, found);
  EXPECT_GT(entry->gflops.size(), 1u);
  std::filesystem::remove(file);
}

// Networks run with any choice.
TEST_F(OpenClCandidateTest, ExecutablesTakeWhatIsChosen) {
  class Last final : public KernelChooser {
    std::string Choose(const KernelCandidates& candidates) override {
      return candidates.names().back();
    }
  };
  BackendOptions options;
  options.cache_folder = UPSCALED_TEST_PROGRAMS;
  options.chooser = std::make_shared<Last>();
  const auto backend = CreateOpenClBackend("opencl", options);
  ASSERT_TRUE(backend.ok()) << backend.status();
  Network network;
  network.layers = {{.op = Op::kInput, .name = "input", .out_channels = 3},
                    MakeConv(Op::kConv, 3, 3, 3, 1, 1, random_)};
  const auto executable = (*backend)->Compile(network, Precision::kExact);
  ASSERT_TRUE(executable.ok()) << executable.status();
  const auto& own = static_cast<const opencl::OpenClExecutable&>(**executable);
  const OpenClKernelSet kernels(context_, Precision::kExact);
  const KernelChoice last = RankKernels(kernels, {&network.layers[1]}).back();
  EXPECT_EQ(own.kernel_infos()[1], last.info);
  EXPECT_EQ(own.kernels()[1]->config(), ConfigOf(last));
}

}  // namespace
}  // namespace upscaled
