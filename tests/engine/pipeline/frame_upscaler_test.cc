#include "engine/pipeline/frame_upscaler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "engine/pipeline/local_executor.h"
#include "engine/pipeline/locality.h"
#include "tests/engine/pipeline/fakes.h"
#include "tests/support/moving_frames.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

using test::FakeExecutable;
using test::FreshRandom;
using test::MovingFrames;
using test::RandomInt;
using test::ReadAllInPortions;
using test::SameImages;
using test::ShufflingExecutor;

using Networks = std::vector<std::shared_ptr<const Executable>>;

UpscalePlan PlanFrames(const ImageSpec& source, Size result, const Networks& networks,
                       const UpscaleOptions& options = {}) {
  const auto plan = PlanUpscale(source, result, networks, options);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return *plan;
}

Image UpscaleWhole(const UpscalePlan& plan, const Image& frame, TileExecutor& executor) {
  ViewRows source(frame.view());
  const auto rows = MakeUpscaler(plan, source, executor, nullptr);
  Image result(plan.result);
  EXPECT_TRUE(rows->ReadRows(result.mutable_view()).ok());
  return result;
}

// All frames' results, each compared with the result of a single image.
void ExpectResultsOfWholeFrames(const UpscalePlan& plan, const std::vector<Image>& frames,
                                FrameUpscaler& upscaler, std::mt19937& random) {
  ShufflingExecutor executor(2, random());
  for (size_t i = 0; i < frames.size(); ++i) {
    ViewRows source(frames[i].view());
    const auto rows = upscaler.Next(source);
    ASSERT_TRUE(rows.ok()) << rows.status();
    ASSERT_EQ((*rows)->spec(), plan.result);
    const auto result = ReadAllInPortions(**rows, random);
    ASSERT_TRUE(result.ok()) << result.status();
    ASSERT_TRUE(SameImages(result->view(), UpscaleWhole(plan, frames[i], executor).view()))
        << "frame " << i << " of " << frames[i].spec();
  }
}

TEST(FrameUpscaler, GivesTheBytesOfWholeFrames) {
  std::mt19937 random = FreshRandom();
  int64_t unchanged_px = 0;
  for (int round = 0; round < 24; ++round) {
    Networks networks;
    int scale = 1;
    for (int passes = RandomInt(random, 1, 2); passes > 0; --passes) {
      const int of_pass = RandomInt(random, 1, passes == 2 ? 2 : 4);
      networks.push_back(std::make_shared<FakeExecutable>(of_pass, Size{64, 48}));
      scale *= of_pass;
    }
    UpscaleOptions options;
    options.tta = RandomInt(random, 0, 3) == 0;
    options.keep_colours = RandomInt(random, 0, 1) == 1;
    options.alpha = RandomInt(random, 0, 1) == 1 ? AlphaMethod::kNetwork : AlphaMethod::kResample;
    options.alpha_colour = RandomInt(random, 0, 1) == 1 ? AlphaColour::kKeep : AlphaColour::kBleed;
    options.result_type = RandomInt(random, 0, 1) == 1 ? SampleType::kU16 : SampleType::kU8;
    if (RandomInt(random, 0, 3) == 0) options.prefilter = BilateralOptions{2, 30};
    if (RandomInt(random, 0, 3) == 0) options.tile_px = RandomInt(random, 20, 90);
    const ImageSpec source{RandomInt(random, 1, 260), RandomInt(random, 1, 260),
                           RandomInt(random, 1, 4),
                           RandomInt(random, 0, 1) == 1 ? SampleType::kU16 : SampleType::kU8};
    Size result{source.width_px * scale, source.height_px * scale};
    if (RandomInt(random, 0, 2) == 0)
      result = {RandomInt(random, 1, 300), RandomInt(random, 1, 300)};
    const UpscalePlan plan = PlanFrames(source, result, networks, options);
    const std::vector<Image> frames = MovingFrames(source, 4, random);
    ShufflingExecutor executor(2, random());
    FrameUpscaler upscaler(plan, 4, executor, nullptr, {});
    ExpectResultsOfWholeFrames(plan, frames, upscaler, random);
    if (HasFatalFailure()) return;
    unchanged_px += upscaler.unchanged_px();
  }
  EXPECT_GT(unchanged_px, 0);
}

// The network's own result is kept, and corrections are made apart.
TEST(FrameUpscaler, CorrectsPartsToTheBytesOfWholeFrames) {
  std::mt19937 random = FreshRandom();
  int64_t unchanged_px = 0;
  for (int round = 0; round < 16; ++round) {
    const int scale = RandomInt(random, 1, 4);
    const auto network = std::make_shared<FakeExecutable>(scale, Size{64, 48});
    UpscaleOptions options;
    options.tta = RandomInt(random, 0, 3) == 0;
    options.keep_colours = RandomInt(random, 0, 3) > 0;
    options.alpha = AlphaMethod::kResample;
    options.alpha_colour = AlphaColour::kKeep;
    options.result_type = RandomInt(random, 0, 1) == 1 ? SampleType::kU16 : SampleType::kU8;
    const ImageSpec source{RandomInt(random, 1, 260), RandomInt(random, 1, 260),
                           RandomInt(random, 3, 4),
                           RandomInt(random, 0, 1) == 1 ? SampleType::kU16 : SampleType::kU8};
    Size result{source.width_px * scale, source.height_px * scale};
    if (RandomInt(random, 0, 3) == 0)
      result = {RandomInt(random, 1, 300), RandomInt(random, 1, 300)};
    const UpscalePlan plan = PlanFrames(source, result, {network}, options);
    ASSERT_TRUE(NetworkPart(LocalPart(plan)).has_value());
    ShufflingExecutor executor(2, random());
    FrameUpscaler upscaler(plan, 5, executor, nullptr, {});
    ExpectResultsOfWholeFrames(plan, MovingFrames(source, 5, random), upscaler, random);
    if (HasFatalFailure()) return;
    unchanged_px += upscaler.unchanged_px();
  }
  EXPECT_GT(unchanged_px, 0);
}

TEST(FrameUpscaler, ComputesNoMoreThanChangedParts) {
  std::mt19937 random = FreshRandom();
  const auto network = std::make_shared<FakeExecutable>(2, Size{100, 100});
  const ImageSpec spec{1000, 800, 3, SampleType::kU8};
  std::vector<Image> frames;
  frames.push_back(test::PhotoImage(spec, random));
  frames.push_back(test::CopyOf(frames[0].view()));
  frames.push_back(test::CopyOf(frames[0].view()));
  frames[2].mutable_view().row(400)[3 * 500] ^= 1;
  const UpscalePlan plan = PlanFrames(spec, {2000, 1600}, {network});
  std::atomic<int64_t> computed_px = 0;
  test::FakeBackend backend(2, [&](const TileTask& task) {
    computed_px += task.plan->tile.Area();
    return absl::OkStatus();
  });
  const auto executor = MakeLocalExecutor(backend);
  FrameUpscaler upscaler(plan, 3, *executor, nullptr, {});
  const auto computed_of = [&](const Image& frame) -> int64_t {
    computed_px = 0;
    ViewRows source(frame.view());
    const auto rows = upscaler.Next(source);
    EXPECT_TRUE(rows.ok()) << rows.status();
    Image result(plan.result);
    EXPECT_TRUE((*rows)->ReadRows(result.mutable_view()).ok());
    return computed_px;
  };
  const int64_t all_px = spec.size().Area();
  EXPECT_EQ(computed_of(frames[0]), all_px);
  EXPECT_EQ(computed_of(frames[1]), 0);
  // A pixel, what it changes of the network's own result, and as much again around that.
  const auto own = NetworkPart(LocalPart(plan));
  ASSERT_TRUE(own.has_value());
  EXPECT_LT(LocalityOf(*own).reach_px(), LocalityOf(plan).reach_px());
  const int64_t side_px = 4 * LocalityOf(*own).reach_px() + 4 * 31;
  const int64_t part_px = computed_of(frames[2]);
  EXPECT_GT(part_px, 0);
  EXPECT_LT(part_px, side_px * side_px);
  EXPECT_EQ(upscaler.unchanged_px(), 2 * all_px - part_px);
  EXPECT_EQ(upscaler.unchanged_frames(), 1);
}

TEST(FrameUpscaler, ProgressCountsFramesThatCostNothing) {
  std::mt19937 random = FreshRandom();
  const auto network = std::make_shared<FakeExecutable>(2);
  const ImageSpec spec{200, 150, 3, SampleType::kU8};
  const Image frame = test::PhotoImage(spec, random);
  const UpscalePlan plan = PlanFrames(spec, {400, 300}, {network});
  ShufflingExecutor executor(2, random());
  absl::Mutex mutex;
  int64_t most = 0, all = 0;
  FrameUpscaler upscaler(plan, 5, executor, nullptr, {.on_tile = [&](int64_t done, int64_t total) {
                           const absl::MutexLock lock(&mutex);
                           most = std::max(most, done);
                           all = total;
                         }});
  for (int i = 1; i <= 5; ++i) {
    ViewRows source(frame.view());
    const auto rows = upscaler.Next(source);
    ASSERT_TRUE(rows.ok()) << rows.status();
    Image result(plan.result);
    ASSERT_TRUE((*rows)->ReadRows(result.mutable_view()).ok());
    const absl::MutexLock lock(&mutex);
    EXPECT_EQ(most, i * plan.tile_count);
  }
  EXPECT_EQ(all, 5 * plan.tile_count);
}

TEST(FrameUpscaler, KeepsNoFramesBeyondTheLimit) {
  std::mt19937 random = FreshRandom();
  const auto network = std::make_shared<FakeExecutable>(2);
  const ImageSpec spec{90, 80, 3, SampleType::kU8};
  UpscaleOptions options;
  const size_t bytes = FrameUpscaler::Bytes(PlanFrames(spec, {180, 160}, {network}), 2);
  // Two frames, the result, and the network's own result in 16 bits.
  EXPECT_GE(bytes, size_t{90} * 80 * 3 * (2 + 4 + 8));
  EXPECT_EQ(FrameUpscaler::Bytes(PlanFrames(spec, {180, 160}, {network}), 1), 0u);
  ShufflingExecutor executor(2, random());

  // Without room for the network's own result, the rest is kept.
  options.kept_frame_bytes = bytes - 1;
  const UpscalePlan less = PlanFrames(spec, {180, 160}, {network}, options);
  const size_t less_bytes = FrameUpscaler::Bytes(less, 2);
  EXPECT_GE(less_bytes, size_t{90} * 80 * 3 * (2 + 4));
  EXPECT_LE(less_bytes, bytes - size_t{90} * 80 * 3 * 8);
  const Image still = test::PhotoImage(spec, random);
  std::vector<Image> frames;
  for (int i = 0; i < 3; ++i) frames.push_back(test::CopyOf(still.view()));
  FrameUpscaler keeps(less, 3, executor, nullptr, {});
  ExpectResultsOfWholeFrames(less, frames, keeps, random);
  EXPECT_GT(keeps.unchanged_px(), 0);

  options.kept_frame_bytes = less_bytes - 1;
  const UpscalePlan plan = PlanFrames(spec, {180, 160}, {network}, options);
  EXPECT_EQ(FrameUpscaler::Bytes(plan, 2), 0u);
  FrameUpscaler upscaler(plan, 3, executor, nullptr, {});
  ExpectResultsOfWholeFrames(plan, MovingFrames(spec, 3, random), upscaler, random);
  EXPECT_EQ(upscaler.unchanged_px(), 0);
}

TEST(FrameUpscaler, EndsWithTheReasonOfACancellation) {
  std::mt19937 random = FreshRandom();
  const auto network = std::make_shared<FakeExecutable>(2);
  const ImageSpec spec{300, 300, 3, SampleType::kU8};
  const UpscalePlan plan = PlanFrames(spec, {600, 600}, {network});
  ShufflingExecutor executor(2, random());
  Cancellation cancellation;
  FrameUpscaler upscaler(plan, 2, executor, &cancellation, {});
  Image frame = test::PhotoImage(spec, random), result(plan.result);
  ViewRows first(frame.view());
  ASSERT_TRUE((*upscaler.Next(first))->ReadRows(result.mutable_view()).ok());
  cancellation.Cancel(absl::CancelledError("the caller left"));
  frame.mutable_view().row(150)[450] ^= 1;
  ViewRows second(frame.view());
  EXPECT_EQ(upscaler.Next(second).status(), absl::CancelledError("the caller left"));
}

}  // namespace
}  // namespace upscaled
