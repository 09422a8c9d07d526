// The cuda backend's own options, limits and precisions. cuda_conformance_tests tests every
// backend's promises.
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "engine/backends/cuda/cuda_backend.h"
#include "engine/backends/cuda/kernels/conv_kernels.h"
#include "engine/backends/reference/reference_backend.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/backends/cached_tile.h"
#include "tests/engine/backends/random_network.h"
#include "tests/engine/backends/run_tiles.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

using test::AppendConv;
using test::Describe;
using test::InputAlone;
using test::RandomImage;
using test::RandomInt;
using test::RandomNetwork;
using test::RunTiles;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class CudaBackendTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto backend = CreateCudaBackend("cuda", {});
    if (absl::IsUnavailable(backend.status())) GTEST_SKIP() << backend.status();
    ASSERT_TRUE(backend.ok()) << backend.status();
    backend_ = *std::move(backend);
  }

  std::shared_ptr<const Executable> Compile(const Network& network, Precision precision) {
    auto executable = backend_->Compile(network, precision);
    EXPECT_TRUE(executable.ok()) << executable.status();
    return executable.ok() ? *executable : nullptr;
  }

  std::mt19937 random_ = test::FreshRandom();
  std::unique_ptr<Backend> backend_;
};

// Relative to the largest value, at least to 1.
void ExpectNear(const Image& actual, const Image& expected, float tolerance) {
  const auto values = [](const Image& image) {
    const float* const begin = reinterpret_cast<const float*>(image.view().data);
    return std::vector<float>(begin, begin + image.bytes() / sizeof(float));
  };
  const std::vector<float> a = values(actual), b = values(expected);
  ASSERT_EQ(a.size(), b.size());
  float largest = 1;
  for (const float value : b) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < b.size(); ++i) ASSERT_NEAR(a[i], b[i], tolerance * largest) << i;
}

// fp16 has 11 bits; a random network of a dozen layers loses a few of them.
TEST_F(CudaBackendTest, FastPrecisionStaysNearTheReferenceForEveryTiling) {
  const auto reference = CreateReferenceBackend({});
  for (int i = 0; i < 10; ++i) {
    const Network network = test::RandomFastNetwork(random_);
    SCOPED_TRACE(Describe(network));
    const auto executable = Compile(network, Precision::kFast);
    ASSERT_NE(executable, nullptr);
    const auto exact = (*reference)->Compile(network, Precision::kExact);
    ASSERT_TRUE(exact.ok()) << exact.status();
    const Size size{RandomInt(random_, 1, 60), RandomInt(random_, 1, 60)};
    const Image source = RandomImage({size.width, size.height, 3, SampleType::kU8}, random_);
    const Image whole = RunTiles(*backend_, *executable, source, size);
    ExpectNear(whole, RunTiles(**reference, **exact, source, size), 1e-2f);
    const Size tile{RandomInt(random_, 5, 60), RandomInt(random_, 5, 60)};
    const Image tiled = RunTiles(*backend_, *executable, source, tile);
    EXPECT_TRUE(test::SameImages(tiled.view(), whole.view()))
        << "tiles of " << tile.width << "x" << tile.height;
    if (HasFailure()) return;
  }
}

TEST_F(CudaBackendTest, FastPrecisionHalvesTheMemoryOfTiles) {
  const Network network = test::RandomFastNetwork(random_);
  SCOPED_TRACE(Describe(network));
  const auto exact = Compile(network, Precision::kExact), fast = Compile(network, Precision::kFast);
  EXPECT_LT(fast->WorkspaceBytes({300, 300}), exact->WorkspaceBytes({300, 300}));
  // The host keeps the parts computed again in fp32 until they are compared.
  const size_t result = size_t{300} * 300 * network.scale * network.scale * 3 * sizeof(float);
  EXPECT_GE(fast->HostWorkspaceBytes({300, 300}), result);
}

// A graph is captured when a tile's shape comes for the second time; batches hold up to 16 tiles.
TEST_F(CudaBackendTest, GraphsAndBatchesGiveTheBytesOfTheFirstRun) {
  const Network network = RandomNetwork(random_);
  SCOPED_TRACE(Describe(network));
  const auto executable = Compile(network, Precision::kExact);
  const Image source = RandomImage({80, 60, 3, SampleType::kU8}, random_);
  const Image whole = RunTiles(*backend_, *executable, source, {80, 60});
  for (int i = 0; i < 3; ++i) {
    const Image other = RandomImage({80, 60, 3, SampleType::kU8}, random_);
    RunTiles(*backend_, *executable, other, {16, 16});
    const Image tiled = RunTiles(*backend_, *executable, source, {16, 16});
    EXPECT_TRUE(test::SameImages(tiled.view(), whole.view())) << "run " << i;
  }
}

// Pixels beyond fp16's range are computed again in fp32: the bytes are the exact ones there.
TEST_F(CudaBackendTest, PixelsBeyondFp16ComeFromExactArithmetic) {
  Network network = InputAlone();
  AppendConv(network, 8, 3);
  AppendConv(network, 3, 1);
  for (float& weight : network.layers[1].weights) weight = 2e4f;  // bright pixels exceed 65504
  for (float& weight : network.layers[2].weights) weight = 1e-6f;
  const auto fast = Compile(network, Precision::kFast), exact = Compile(network, Precision::kExact);
  Image source = RandomImage({90, 70, 3, SampleType::kU8}, random_);
  for (int y = 0; y < 70; ++y) std::fill_n(source.mutable_view().row(y), 3 * 45, uint8_t{0});
  const Image expected = RunTiles(*backend_, *exact, source, {90, 70});
  const Image whole = RunTiles(*backend_, *fast, source, {90, 70});
  ExpectNear(whole, expected, 1e-2f);
  const Image tiled = RunTiles(*backend_, *fast, source, {20, 30});
  EXPECT_TRUE(test::SameImages(tiled.view(), whole.view()));
}

// One channel falls below the range where others make the sum positive.
TEST_F(CudaBackendTest, AReluHidesNothingBeyondFp16) {
  Network network = InputAlone();
  AppendConv(network, 8, 3);
  AppendConv(network, 3, 1);
  std::vector<float>& first = network.layers[1].weights;
  std::vector<float>& last = network.layers[2].weights;
  network.layers[2].activation = Activation::kRelu;
  std::fill(first.begin(), first.end(), 100.0f);
  std::fill_n(first.begin(), first.size() / 8, -2e4f);  // the first channel
  for (size_t i = 0; i < last.size(); ++i) last[i] = i % 8 == 0 ? 1e-6f : 1e-4f;
  const auto fast = Compile(network, Precision::kFast), exact = Compile(network, Precision::kExact);
  const Image source = RandomImage({40, 30, 3, SampleType::kU8}, random_);
  ExpectNear(RunTiles(*backend_, *fast, source, {40, 30}),
             RunTiles(*backend_, *exact, source, {40, 30}), 1e-2f);
}

TEST_F(CudaBackendTest, EveryForcedKernelRunsOrNamesItself) {
  Network network = InputAlone();
  AppendConv(network, 64, 3);
  AppendConv(network, 64, 3);
  AppendConv(network, 3, 3);
  const Image source = RandomImage({50, 40, 3, SampleType::kU8}, random_);
  const auto reference = CreateReferenceBackend({});
  const auto exact = (*reference)->Compile(network, Precision::kExact);
  const Image expected = RunTiles(**reference, **exact, source, {50, 40});
  for (const cuda::ConvKernel& kernel : cuda::ListConvKernels()) {
    SCOPED_TRACE(kernel.name);
    BackendOptions options;
    options.kernel = std::string(kernel.name);
    const auto backend = CreateCudaBackend("cuda", options);
    ASSERT_TRUE(backend.ok()) << backend.status();
    for (const Precision precision : {Precision::kExact, Precision::kFast}) {
      const auto executable = (*backend)->Compile(network, precision);
      if (!executable.ok()) {
        EXPECT_EQ(executable.status(),
                  absl::UnimplementedError("kernel '" + options.kernel +
                                           "' supports no layer of the network"));
        continue;
      }
      ExpectNear(RunTiles(**backend, **executable, source, {50, 40}), expected,
                 precision == Precision::kExact ? 1e-4f : 1e-2f);
    }
  }
}

TEST_F(CudaBackendTest, ACachedTileGoesOnWhereItStopped) {
  for (const Precision precision : {Precision::kExact, Precision::kFast}) {
    test::ExpectGoesOn(*backend_, precision, random_);
  }
}

TEST_F(CudaBackendTest, SaysWhatItIs) {
  EXPECT_THAT(std::string(backend_->name()), StartsWith("cuda:"));
  EXPECT_THAT(backend_->description(), HasSubstr("compute capability"));
  EXPECT_GE(backend_->StreamCount(), 2);
}

TEST_F(CudaBackendTest, TileThatIsTooLargeNamesTheLayerAndTheLimit) {
  Network network = InputAlone();
  AppendConv(network, 8192, 1);
  AppendConv(network, 3, 1);
  const auto executable = Compile(network, Precision::kExact);
  ASSERT_NE(executable, nullptr);
  // 8192 channels of 36 megapixels: 2^35 pixels of a plane, kernels count to 2^31.
  const Image source({6000, 6000, 3, SampleType::kU8});
  Image result({6000, 6000, 3, SampleType::kU8});
  const TileTask task = test::WholeTask(*executable, source.view(), result.mutable_view());
  const auto stream = backend_->CreateStream();
  const absl::Status status = stream->Run(*executable, {&task, 1});
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(std::string(status.message()), AllOf(StartsWith("layer 'conv1' of the tile has "),
                                                   HasSubstr("the limit of the cuda backend is")));
  // The stream goes on.
  const Image small = RandomImage({9, 9, 3, SampleType::kU8}, random_);
  RunTiles(*backend_, *executable, small, {9, 9});
}

}  // namespace
}  // namespace upscaled
