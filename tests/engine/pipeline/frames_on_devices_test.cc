// Animations through the real devices: bundled models and random networks. Whole frames and the
// parts that changed give the same bytes.
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "engine/model/repository.h"
#include "engine/pipeline/frame_upscaler.h"
#include "engine/pipeline/local_executor.h"
#include "tests/engine/backends/random_network.h"
#include "tests/engine/backends/tested_devices.h"
#include "tests/support/moving_frames.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

using test::RandomInt;

class FramesOnDevice : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    auto backend = test::CreateTestedBackend(GetParam(), {.threads = 2});
    if (absl::IsUnavailable(backend.status())) GTEST_SKIP() << backend.status();
    ASSERT_TRUE(backend.ok()) << backend.status();
    backend_ = *std::move(backend);
    executor_ = MakeLocalExecutor(*backend_);
  }

  std::shared_ptr<const Executable> Compile(const Network& network, Precision precision) {
    auto executable = backend_->Compile(network, precision);
    if (absl::IsUnimplemented(executable.status())) return nullptr;
    EXPECT_TRUE(executable.ok()) << executable.status();
    return *std::move(executable);
  }

  // Compares all frames' results with those of single images. Returns unchanged pixels.
  int64_t Compare(const UpscalePlan& plan, const std::vector<Image>& frames) {
    FrameUpscaler upscaler(plan, static_cast<int>(frames.size()), *executor_, nullptr, {});
    for (size_t i = 0; i < frames.size(); ++i) {
      ViewRows source(frames[i].view()), alone(frames[i].view());
      const auto rows = upscaler.Next(source);
      EXPECT_TRUE(rows.ok()) << rows.status();
      if (!rows.ok()) break;
      Image result(plan.result), expected(plan.result);
      EXPECT_TRUE((*rows)->ReadRows(result.mutable_view()).ok());
      EXPECT_TRUE(
          MakeUpscaler(plan, alone, *executor_, nullptr)->ReadRows(expected.mutable_view()).ok());
      EXPECT_TRUE(test::SameImages(result.view(), expected.view()))
          << "frame " << i << " of " << plan.source << ", tta " << plan.options.tta;
    }
    return upscaler.unchanged_px();
  }

  // Compares frames of this size through the network. Returns unchanged pixels.
  int64_t CompareFrames(const Network& network, Size size) {
    const auto executable = Compile(network, Precision::kExact);
    if (executable == nullptr) return 0;
    const ImageSpec spec{size.width, size.height, RandomInt(random_, 1, 4), SampleType::kU8};
    const Size result{spec.width_px * network.scale, spec.height_px * network.scale};
    const auto plan = PlanUpscale(spec, result, {executable}, AnyOptions());
    EXPECT_TRUE(plan.ok()) << plan.status();
    return plan.ok() ? Compare(*plan, test::MovingFrames(spec, 3, random_)) : 0;
  }

  UpscaleOptions AnyOptions() {
    UpscaleOptions options;
    options.concurrency = executor_->concurrency();
    options.tta = RandomInt(random_, 0, 5) == 0;
    options.keep_colours = RandomInt(random_, 0, 3) > 0;
    options.alpha_colour = RandomInt(random_, 0, 1) == 1 ? AlphaColour::kKeep : AlphaColour::kBleed;
    return options;
  }

  std::mt19937 random_ = test::FreshRandom();
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<TileExecutor> executor_;
};

TEST_P(FramesOnDevice, BundledModelsGiveTheBytesOfWholeFrames) {
  const auto repository = ModelRepository::Open({"engine/model/bundled"});
  ASSERT_TRUE(repository.ok()) << repository.status();
  const int side_px = GetParam() == "reference" ? 70 : 170;  // the reference takes its time
  int64_t unchanged_px = 0;
  for (const ModelCard& card : repository->models()) {
    for (const ModelVariant& variant : card.variants) {
      const auto network = LoadNetwork(card, variant);
      ASSERT_TRUE(network.ok()) << network.status();
      const auto executable = Compile(*network, Precision::kExact);
      ASSERT_NE(executable, nullptr);
      const ImageSpec spec{RandomInt(random_, side_px / 2, side_px),
                           RandomInt(random_, side_px / 2, side_px), RandomInt(random_, 1, 4),
                           SampleType::kU8};
      // The model once, twice, and with a resize behind it.
      const int scale = RandomInt(random_, 2, 4);
      const std::vector<std::shared_ptr<const Executable>> passes(scale == 4 ? 2 : 1, executable);
      const auto plan =
          PlanUpscale(spec, {spec.width_px * scale, spec.height_px * scale}, passes, AnyOptions());
      ASSERT_TRUE(plan.ok()) << plan.status();
      std::vector<Image> frames = test::MovingFrames(spec, 3, random_);
      frames.push_back(test::CopyOf(frames.back().view()));  // one that costs nothing, at least
      unchanged_px += Compare(*plan, frames);
    }
  }
  EXPECT_GT(unchanged_px, 0);
}

TEST_P(FramesOnDevice, RandomNetworksGiveTheBytesOfWholeFrames) {
  for (int round = 0; round < 12; ++round) {
    const Network network = round % 4 == 0   ? test::RandomPooledNetwork(random_, 2e4)
                            : round % 4 == 1 ? test::RandomAttentionNetwork(random_)
                                             : test::RandomNetwork(random_);
    CompareFrames(network, {RandomInt(random_, 20, 140), RandomInt(random_, 20, 140)});
    if (HasFailure()) FAIL() << test::Describe(network);
  }
}

// A cut-out at the right or bottom edge is padded by as much as the frame.
TEST_P(FramesOnDevice, NetworksThatPadToMultiplesGiveTheBytesOfWholeFrames) {
  const bool is_slow = GetParam() == "reference";
  int64_t unchanged_px = 0;
  for (int round = 0; round < (is_slow ? 2 : 8); ++round) {
    const Network network = test::RandomAlignedNetwork(random_);
    const int side_px = is_slow ? 150 : 300;
    unchanged_px += CompareFrames(
        network, {RandomInt(random_, 120, side_px), RandomInt(random_, 120, side_px)});
    if (HasFailure()) FAIL() << test::Describe(network);
  }
  if (!is_slow) {
    EXPECT_GT(unchanged_px, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, FramesOnDevice, ::testing::ValuesIn(test::TestedDevices()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace upscaled
