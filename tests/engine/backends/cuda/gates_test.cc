// Networks with gates that the convolutions behind them compute: with the runtime and the kernels
// of host_runtime.h and host_kernels.h.
#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/backends/cuda/cuda_backend.h"
#include "engine/backends/cuda/cuda_executable.h"
#include "engine/proof/kernel_proof.h"
#include "gtest/gtest.h"
#include "tests/engine/backends/cached_tile.h"
#include "tests/engine/backends/random_network.h"
#include "tests/engine/backends/run_tiles.h"
#include "tests/engine/backends/tested_layers.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

using test::AppendConv;
using test::AppendTimesMean;

constexpr Size kImage{70, 50};

// Keeps what it compiles.
class WatchedBackend final : public Backend {
 public:
  WatchedBackend(std::unique_ptr<Backend> backend,
                 std::vector<std::shared_ptr<const Executable>>& compiled)
      : backend_(std::move(backend)), compiled_(compiled) {}

  std::string_view name() const override { return backend_->name(); }
  std::string description() const override { return backend_->description(); }
  absl::StatusOr<std::shared_ptr<const Executable>> Compile(const Network& network,
                                                            Precision precision) override {
    auto executable = backend_->Compile(network, precision);
    if (executable.ok()) compiled_.push_back(*executable);
    return executable;
  }
  std::unique_ptr<Stream> CreateStream() override { return backend_->CreateStream(); }
  int StreamCount() const override { return backend_->StreamCount(); }

 private:
  const std::unique_ptr<Backend> backend_;
  std::vector<std::shared_ptr<const Executable>>& compiled_;
};

class CudaGatesTest : public ::testing::Test {
 protected:
  // Two gates: the first one's readers are a convolution, and the sum with its result.
  void SetUp() override {
    AppendConv(network_, 8, 3);
    AppendConv(network_, 11, 3);
    AppendTimesMean(network_, Last());
    const int gate = Last();
    AppendConv(network_, 11, 3);
    network_.layers.push_back({.op = Op::kAdd,
                               .name = "sum",
                               .inputs = {Last(), gate},
                               .out_channels = 11,
                               .in_channels = 11});
    AppendConv(network_, 16, 3);
    AppendTimesMean(network_, Last());
    AppendConv(network_, 3, 3);
    std::mt19937 random(1);
    std::uniform_real_distribution<float> weight(-0.4f, 0.6f);
    for (Layer& layer : network_.layers) {
      for (float& value : layer.weights) value = weight(random) / 4;
    }
  }
  int Last() const { return static_cast<int>(network_.layers.size()) - 1; }

  void Compile(Precision precision, bool folded) {
    BackendOptions options;
    if (folded) options.proven_kernels = {"folded_gates"};
    Compile(precision, options);
  }
  void Compile(Precision precision, const BackendOptions& options) {
    auto backend = CreateCudaBackend("cuda", options);
    ASSERT_TRUE(backend.ok()) << backend.status();
    backend_ = *std::move(backend);
    auto executable = backend_->Compile(network_, precision);
    ASSERT_TRUE(executable.ok()) << executable.status();
    executable_ = *std::move(executable);
  }
  // Counts nodes with factors for their input, and with factors for their residual.
  std::pair<int, int> Gates() const {
    const auto& own = static_cast<const cuda::CudaExecutable&>(*executable_);
    std::pair<int, int> gates;
    for (const Node& node : own.program().nodes) {
      gates.first += node.gate >= 0;
      gates.second += node.residual_gate >= 0;
    }
    return gates;
  }
  Image Run(Size tile) { return test::RunTiles(*backend_, *executable_, source_, tile); }

  // The largest difference as a part of the largest value; NaN if a value is not finite.
  static float Difference(const ImageView& a, const ImageView& b) {
    float worst = 0, largest = 0;
    for (int y = 0; y < a.height_px(); ++y) {
      const float* const left = a.row_as<float>(y);
      const float* const right = b.row_as<float>(y);
      for (int i = 0; i < a.width_px() * 3; ++i) {
        if (!std::isfinite(left[i])) return left[i] - left[i];
        worst = std::max(worst, std::abs(left[i] - right[i]));
        largest = std::max(largest, std::abs(right[i]));
      }
    }
    return worst / largest;
  }

  std::mt19937 random_ = test::FreshRandom();
  Network network_ = test::InputAlone();
  Image source_ = test::RandomImage({kImage.width, kImage.height, 3, SampleType::kU8}, random_);
  std::unique_ptr<Backend> backend_;
  std::shared_ptr<const Executable> executable_;
};

// In one tile, in batches of tiles with factors each, in graphs, and with kept tensors.
TEST_F(CudaGatesTest, GiveTheSameBytesForEveryTiling) {
  Compile(Precision::kFast, false);
  EXPECT_EQ(Gates(), std::pair(0, 0));
  const Image plain = Run(kImage);
  Compile(Precision::kFast, true);
  EXPECT_EQ(Gates(), std::pair(2, 1));
  const Image folded = Run(kImage);
  EXPECT_LT(Difference(folded.view(), plain.view()), 4e-3f);
  for (int run = 0; run < 3; ++run) {
    for (const Size tile : {Size{16, 16}, Size{7, 50}}) {
      EXPECT_TRUE(test::SameImages(Run(tile).view(), folded.view()))
          << "tiles of " << tile.width << "x" << tile.height;
    }
  }
  const std::unique_ptr<ActivationCache> memory = executable_->CreateActivationCache();
  const auto kept = test::RunCached(*backend_, *executable_, source_, source_, memory.get());
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_TRUE(test::SameImages(kept->view(), folded.view()));
}

// White pixels beyond the range of halves, behind a gate and a sum with its result.
TEST_F(CudaGatesTest, OverflowedPixelsAreComputedExactly) {
  network_ = test::InputAlone();
  AppendConv(network_, 8, 3);
  AppendTimesMean(network_, Last());
  const int gate = Last();
  AppendConv(network_, 8, 3);
  network_.layers.push_back({.op = Op::kAdd,
                             .name = "sum",
                             .inputs = {Last(), gate},
                             .out_channels = 8,
                             .in_channels = 8});
  AppendConv(network_, 3, 3);
  constexpr Rect kWhite{40, 20, 6, 5};
  std::uniform_int_distribution<int> dark(0, 25);
  for (int y = 0; y < kImage.height; ++y) {
    uint8_t* const row = source_.mutable_view().row(y);
    for (int x = 0; x < kImage.width; ++x) {
      const bool white = kWhite.Contains({x, y, 1, 1});
      for (int c = 0; c < 3; ++c)
        row[3 * x + c] = white ? 255 : static_cast<uint8_t>(dark(random_));
    }
  }
  const auto fill = [&](Layer& layer, float least, float most) {
    std::uniform_real_distribution<float> weight(least, most);
    for (float& value : layer.weights) value = weight(random_);
  };
  fill(network_.layers[1], 0.02f, 0.06f);  // about 1 where it is white, 0.05 elsewhere
  fill(network_.layers[4], 1e5f, 3e5f);    // about 1e6, 5e4
  fill(network_.layers[6], -1e-6f, 2e-6f);
  Compile(Precision::kExact, false);
  const Image exact = Run(kImage);
  for (const bool folded : {false, true}) {
    Compile(Precision::kFast, folded);
    EXPECT_EQ(Gates(), folded ? std::pair(1, 1) : std::pair(0, 0));
    for (const Size tile : {kImage, Size{16, 16}}) {
      const Image fast = Run(tile);
      EXPECT_LT(Difference(fast.view(), exact.view()), 4e-3f) << folded;
      // Their means are those of halves.
      EXPECT_LT(Difference(fast.view().Crop(kWhite), exact.view().Crop(kWhite)), 1e-4f);
      constexpr Rect kDark{0, 0, 30, 15};
      EXPECT_GT(Difference(fast.view().Crop(kDark), exact.view().Crop(kDark)), 1e-4f)
          << "it was computed exactly, too";
    }
  }
}

// Proofs do without the repair, which would hide a wrong kernel.
TEST_F(CudaGatesTest, WithoutRepairsOverflowedPixelsAreNan) {
  network_ = test::InputAlone();
  AppendConv(network_, 8, 3);
  AppendConv(network_, 8, 3);
  AppendConv(network_, 3, 3);
  for (Layer& layer : network_.layers) std::ranges::fill(layer.weights, 100.0f);
  for (const bool repairs : {true, false}) {
    Compile(Precision::kFast, {.repairs = repairs});
    EXPECT_EQ(std::isfinite(Run(kImage).view().row_as<float>(20)[60]), repairs);
  }
}

// A proof's network has gates of all that the server folds.
TEST_F(CudaGatesTest, ProofsFoldGatesOfEveryKindOfConvolution) {
  std::vector<std::shared_ptr<const Executable>> compiled;
  const ProofBackend create =
      [&](const BackendOptions& options) -> absl::StatusOr<std::unique_ptr<Backend>> {
    auto backend = CreateCudaBackend("cuda", options);
    if (!backend.ok()) return backend.status();
    return std::make_unique<WatchedBackend>(*std::move(backend), compiled);
  };
  constexpr ProofCase kCase{8, 8, true, {9, 7}, 2, 8e-3f, ProofLayer::kGated};
  const auto result = ProveKernel(create, "folded_gates", kCase);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->right) << result->worst;
  ASSERT_EQ(compiled.size(), 2u);
  executable_ = compiled[0];
  EXPECT_EQ(Gates(), std::pair(4, 2));  // 3x3, 2x2, transposed and last; sums with two of these
  executable_ = compiled[1];
  EXPECT_EQ(Gates(), std::pair(0, 0));
  executable_.reset();
}

TEST_F(CudaGatesTest, ExactStaysAsItIs) {
  Compile(Precision::kExact, false);
  const Image plain = Run(kImage);
  Compile(Precision::kExact, true);
  EXPECT_EQ(Gates(), std::pair(0, 0));
  EXPECT_TRUE(test::SameImages(Run(kImage).view(), plain.view()));
}

}  // namespace
}  // namespace upscaled
