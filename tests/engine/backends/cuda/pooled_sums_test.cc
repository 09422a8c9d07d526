// Which launch adds up a pooled layer; the result is the same: with the runtime and the kernels of
// host_runtime.h and host_kernels.h.
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "engine/backends/cuda/cuda_backend.h"
#include "engine/backends/cuda/cuda_executable.h"
#include "engine/backends/cuda/profile.h"
#include "gtest/gtest.h"
#include "tests/engine/backends/cached_tile.h"
#include "tests/engine/backends/cuda/host_kernels.h"
#include "tests/engine/backends/cuda/host_runtime.h"
#include "tests/engine/backends/random_network.h"
#include "tests/engine/backends/run_tiles.h"
#include "tests/engine/backends/tested_layers.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

using test::AppendConv;
using test::AppendTimesMean;

constexpr Size kSize{70, 50};
constexpr Size kTile{16, 16};

class CudaPooledSumsTest : public ::testing::TestWithParam<Precision> {
 protected:
  // Two squeeze-excites, as cunet's.
  void SetUp() override {
    AppendConv(network_, 8, 3);
    AppendConv(network_, 11, 3);
    AppendTimesMean(network_, 2);
    AppendConv(network_, 16, 3);
    AppendTimesMean(network_, Last());
  }

  int Last() const { return static_cast<int>(network_.layers.size()) - 1; }

  // With the kernel named, of the network behind a last convolution.
  void Compile(const std::string& kernel) {
    Network network = network_;
    AppendConv(network, 3, 3);
    std::mt19937 random(1);
    std::uniform_real_distribution<float> weight(-0.5f, 0.5f);
    for (Layer& layer : network.layers) {
      for (float& value : layer.weights) value = weight(random);
    }
    BackendOptions options;
    options.kernel = kernel;
    auto backend = CreateCudaBackend("cuda", options);
    ASSERT_TRUE(backend.ok()) << backend.status();
    backend_ = *std::move(backend);
    auto executable = backend_->Compile(network, GetParam());
    ASSERT_TRUE(executable.ok()) << executable.status();
    executable_ = *std::move(executable);
  }

  // The image's result, and how often sums had a launch of their own.
  std::pair<Image, int> Run(Size tile) {
    const int before = test::SumLaunches();
    Image result = test::RunTiles(*backend_, *executable_, source_, tile);
    return {std::move(result), test::SumLaunches() - before};
  }
  // As one tile with kept tensors.
  std::pair<Image, int> RunCached() {
    const int before = test::SumLaunches();
    const std::unique_ptr<ActivationCache> memory = executable_->CreateActivationCache();
    auto result = test::RunCached(*backend_, *executable_, source_, source_, memory.get());
    EXPECT_TRUE(result.ok()) << result.status();
    return {*std::move(result), test::SumLaunches() - before};
  }

  std::mt19937 random_ = test::FreshRandom();
  Network network_ = test::InputAlone();
  Image source_ = test::RandomImage({kSize.width, kSize.height, 3, SampleType::kU8}, random_);
  std::unique_ptr<Backend> backend_;
  std::shared_ptr<const Executable> executable_;
};

// In batches, in graphs, and in a tile with an activation cache.
TEST_P(CudaPooledSumsTest, OfConvolutionsAreTheirKernels) {
  Compile("any");
  const auto [expected, launches] = Run(kSize);
  EXPECT_EQ(launches, 2);
  EXPECT_GT(Run(kTile).second, 2);
  EXPECT_EQ(RunCached().second, 2);

  Compile("any_with_sums");
  for (const Size tile : {kSize, kTile, Size{7, 50}}) {
    const auto [result, separate] = Run(tile);
    EXPECT_TRUE(test::SameImages(result.view(), expected.view()))
        << "tiles of " << tile.width << "x" << tile.height;
    EXPECT_EQ(separate, 0);
  }
  const auto [kept, separate] = RunCached();
  EXPECT_TRUE(test::SameImages(kept.view(), expected.view()));
  EXPECT_EQ(separate, 0);
}

// A repeated graph starts from zeros.
TEST_P(CudaPooledSumsTest, OfGraphsThatRunAgain) {
  Compile("any_with_sums");
  const Rect whole{0, 0, kSize.width, kSize.height};
  const std::unique_ptr<Stream> stream = backend_->CreateStream();
  std::vector<Image> results;
  const int graphs = test::CapturedGraphs();
  for (int i = 0; i < 4; ++i) {
    Image& result = results.emplace_back(ImageSpec{kSize.width, kSize.height, 3, SampleType::kF32});
    const TileTask task = test::MakeTask(*executable_, source_, whole, result);
    ASSERT_TRUE(test::RunImage(*stream, *executable_, {task}).ok());
    EXPECT_TRUE(test::SameImages(result.view(), results[0].view())) << "run " << i;
  }
  EXPECT_EQ(test::CapturedGraphs() - graphs, 3);  // two gatherings' and the result's
}

// Layers without a convolution able to add them up are added up by a launch behind it.
TEST_P(CudaPooledSumsTest, OfOtherLayersAreLaunched) {
  network_.layers.push_back({.op = Op::kActivation,
                             .name = "relu",
                             .inputs = {Last()},
                             .out_channels = 16,
                             .in_channels = 16,
                             .activation = Activation::kRelu});
  AppendTimesMean(network_, Last());
  std::mt19937 random(1);
  network_.layers.push_back(test::MakeConv(Op::kConvTranspose, 16, 16, 2, 2, 0, random));
  network_.layers.back().inputs = {Last() - 1};
  network_.scale = 2;
  AppendTimesMean(network_, Last());
  Compile("any_with_sums");
  EXPECT_EQ(Run(kSize).second, 2);
}

// The second one finds the layer in the tile's memory, so no step computes it again.
TEST_P(CudaPooledSumsTest, OfALayerThatIsPooledTwice) {
  const int pooled = Last() - 2;
  network_.layers.push_back({.op = Op::kGlobalAveragePool,
                             .name = "again",
                             .inputs = {pooled},
                             .out_channels = 16,
                             .in_channels = 16});
  network_.layers.push_back({.op = Op::kMul,
                             .name = "twice",
                             .inputs = {Last() - 1, Last()},
                             .out_channels = 16,
                             .in_channels = 16});
  Compile("any_with_sums");
  const auto [expected, launches] = Run(kSize);
  EXPECT_EQ(launches, 0);
  const auto [kept, separate] = RunCached();
  EXPECT_TRUE(test::SameImages(kept.view(), expected.view()));
  EXPECT_EQ(separate, 1);
}

TEST_P(CudaPooledSumsTest, AProfileTellsWhoseTheyAre) {
  const auto sums_added = [&](const std::string& kernel) {
    Compile(kernel);
    const auto& own = static_cast<const cuda::CudaExecutable&>(*executable_);
    const auto profile = cuda::ProfileTile(own, {{40, 30}, {0, 0, 40, 30}}, 1);
    EXPECT_TRUE(profile.ok()) << profile.status();
    return profile.ok() ? profile->sums_added : std::vector<bool>();
  };
  EXPECT_EQ(sums_added("any"), (std::vector<bool>{false, false}));
  EXPECT_EQ(sums_added("any_with_sums"), (std::vector<bool>{true, true}));
}

INSTANTIATE_TEST_SUITE_P(Precisions, CudaPooledSumsTest,
                         ::testing::Values(Precision::kExact, Precision::kFast),
                         [](const auto& info) { return std::string(PrecisionName(info.param)); });

}  // namespace
}  // namespace upscaled
