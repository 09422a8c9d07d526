// Batches with a kernel that gave up: with the runtime and the kernels of
// host_runtime.h and host_kernels.h.
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "engine/backends/cuda/cuda_backend.h"
#include "engine/backends/cuda/cuda_executable.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/backends/cuda/host_kernels.h"
#include "tests/engine/backends/random_network.h"
#include "tests/engine/backends/run_tiles.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr Size kPicture{40, 30};

class CudaGiveUpTest : public ::testing::Test {
 protected:
  // Layers with means of their results, and with a clip, which hides NaN.
  void SetUp() override {
    network_.name = "tested";
    test::AppendConv(network_, 8, 3);
    test::AppendConv(network_, 11, 3);
    network_.layers.back().activation = Activation::kClip;
    network_.layers.back().clip_max = 6;
    test::AppendTimesMean(network_, 2);
    test::AppendConv(network_, 3, 3);
    std::mt19937 random(1);
    std::uniform_real_distribution<float> weight(-0.5f, 0.5f);
    for (Layer& layer : network_.layers) {
      for (float& value : layer.weights) value = weight(random);
    }
  }
  void TearDown() override { test::GiveUp(0, 0); }

  void Compile(Precision precision, const BackendOptions& options) {
    auto backend = CreateCudaBackend("cuda", options);
    ASSERT_TRUE(backend.ok()) << backend.status();
    backend_ = *std::move(backend);
    auto executable = backend_->Compile(network_, precision);
    ASSERT_TRUE(executable.ok()) << executable.status();
    executable_ = *std::move(executable);
  }
  Image Run(Size tile) {
    return test::RunTiles(*backend_, *executable_, source_, tile, SampleType::kU8);
  }
  absl::Status RunFailing() {
    Image result({kPicture.width, kPicture.height, 3, SampleType::kU8});
    return test::RunImage(
        *backend_->CreateStream(), *executable_,
        {test::MakeTask(*executable_, source_, {0, 0, kPicture.width, kPicture.height}, result)});
  }

  std::mt19937 random_ = test::FreshRandom();
  Network network_ = test::InputAlone();
  Image source_ = test::RandomImage({kPicture.width, kPicture.height, 3, SampleType::kU8}, random_);
  std::unique_ptr<Backend> backend_;
  std::shared_ptr<const Executable> executable_;
};

// In the run of sums, or in that of pixels before the clip or behind it.
TEST_F(CudaGiveUpTest, TheBatchIsComputedAgain) {
  for (const Precision precision : {Precision::kExact, Precision::kFast}) {
    for (const char* kernel : {"any", "any_with_sums"}) {
      Compile(precision, {.kernel = kernel});
      const Image expected = Run(kPicture);
      for (int before = 0; before < 3; ++before) {
        for (const Size tile : {kPicture, Size{16, 16}}) {
          test::GiveUp(before, 1);
          EXPECT_TRUE(test::SameImages(Run(tile).view(), expected.view()))
              << kernel << ", after " << before << ", tiles of " << tile.width;
        }
      }
    }
  }
}

TEST_F(CudaGiveUpTest, ASecondTimeFails) {
  for (const bool repairs : {true, false}) {
    Compile(Precision::kFast, {.repairs = repairs});
    test::GiveUp(0, repairs ? 1000 : 1);
    const absl::Status status = RunFailing();
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    EXPECT_THAT(std::string(status.message()),
                AllOf(StartsWith("cuda:0: "), HasSubstr("'tested' waited in vain and gave up")));
    test::GiveUp(0, 0);
    EXPECT_TRUE(RunFailing().ok());
  }
}

}  // namespace
}  // namespace upscaled
