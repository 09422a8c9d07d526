#include "engine/pipeline/upscaler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <random>
#include <vector>

#include "absl/synchronization/notification.h"
#include "engine/image/alpha.h"
#include "engine/image/bilateral.h"
#include "engine/image/convert.h"
#include "engine/image/resample.h"
#include "engine/pipeline/gray_areas.h"
#include "engine/pipeline/kept_colours.h"
#include "engine/pipeline/local_executor.h"
#include "tests/engine/pipeline/fakes.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

using test::ComputePass;
using test::FakeBackend;
using test::FakeExecutable;
using test::FreshRandom;
using test::RandomImage;
using test::RandomInt;
using test::ReadAllInPortions;
using test::SameImages;
using test::ShufflingExecutor;
using test::ViewRows;
using ::testing::HasSubstr;

using Passes = std::vector<std::shared_ptr<const Executable>>;

std::shared_ptr<const FakeExecutable> Fake(int scale, Size preferred = {64, 64}) {
  return std::make_shared<FakeExecutable>(scale, preferred);
}

// The result of a plan on an executor that runs tiles in random order.
Image Upscale(const UpscalePlan& plan, const Image& image, std::mt19937& random) {
  ShufflingExecutor executor(3, random());
  ViewRows source(image.view());
  const auto upscaler = MakeUpscaler(plan, source, executor, nullptr);
  EXPECT_EQ(upscaler->spec(), plan.result);
  absl::StatusOr<Image> result = ReadAllInPortions(*upscaler, random);
  EXPECT_TRUE(result.ok()) << result.status();
  return result.ok() ? *std::move(result) : Image(plan.result);
}

UpscalePlan Plan(const ImageSpec& source, Size result, const Passes& passes,
                 const UpscaleOptions& options = {}, size_t budget = size_t{64} << 20) {
  const auto plan = PlanUpscale(source, result, passes, options, budget);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return *plan;
}

Size Times(Size size, int factor) { return {size.width * factor, size.height * factor}; }

// Any way to cut and to hold the image, within reason, and colours kept or not.
UpscaleOptions AnyCut(std::mt19937& random) {
  UpscaleOptions options;
  options.tile_px = RandomInt(random, 1, 80);
  options.concurrency = RandomInt(random, 1, 5);
  options.keep_colours = RandomInt(random, 0, 1) == 1;
  return options;
}

TEST(Upscaler, GivesTheBytesOfTheWholeImageForEveryCut) {
  std::mt19937 random = FreshRandom();
  for (int round = 0; round < 60; ++round) {
    const SampleType from = round % 2 ? SampleType::kU8 : SampleType::kU16;
    const SampleType to = round % 3 ? SampleType::kU8 : SampleType::kU16;
    const ImageSpec spec{RandomInt(random, 1, 90), RandomInt(random, 1, 90), 3, from};
    const Image image = RandomImage(spec, random);
    const auto network = Fake(RandomInt(random, 1, 3), {RandomInt(random, 1, 99), 40});
    UpscaleOptions options = AnyCut(random);
    options.result_type = to;
    const UpscalePlan plan = Plan(spec, Times(spec.size(), network->network().scale), {network},
                                  options, static_cast<size_t>(RandomInt(random, 0, 100000)));
    ASSERT_TRUE(SameImages(Upscale(plan, image, random).view(),
                           ComputePass(*network, image, options, to).view()))
        << spec << ", tile_px " << options.tile_px;
  }
}

TEST(Upscaler, RepeatsPassesWithSixteenBitsBetweenThem) {
  std::mt19937 random = FreshRandom();
  for (int round = 0; round < 20; ++round) {
    const ImageSpec spec{RandomInt(random, 1, 40), RandomInt(random, 1, 40), 3, SampleType::kU8};
    const Image image = RandomImage(spec, random);
    const auto first = Fake(2), second = Fake(RandomInt(random, 1, 2)), third = Fake(2);
    const UpscaleOptions options = AnyCut(random);
    const Image between = ComputePass(*first, image, options, SampleType::kU16);
    const Image later = ComputePass(*second, between, options, SampleType::kU16);
    const UpscalePlan plan =
        Plan(spec, Times(later.spec().size(), 2), {first, second, third}, options);
    ASSERT_TRUE(SameImages(Upscale(plan, image, random).view(),
                           ComputePass(*third, later, options, SampleType::kU8).view()))
        << spec;
  }
}

TEST(Upscaler, AveragesTheEightVariantsOfTheWholeImage) {
  std::mt19937 random = FreshRandom();
  for (int round = 0; round < 20; ++round) {
    const ImageSpec spec{RandomInt(random, 1, 70), RandomInt(random, 1, 70), 3,
                         round % 2 ? SampleType::kU8 : SampleType::kU16};
    const Image image = RandomImage(spec, random);
    const auto network = Fake(2);
    UpscaleOptions options = AnyCut(random);
    options.tta = true;
    options.result_type = round % 3 ? SampleType::kU8 : SampleType::kU16;
    const UpscalePlan plan = Plan(spec, Times(spec.size(), 2), {network}, options);
    ASSERT_TRUE(SameImages(Upscale(plan, image, random).view(),
                           ComputePass(*network, image, options, options.result_type).view()))
        << spec << ", tile_px " << options.tile_px;
  }
}

TEST(Upscaler, PassesAnImageThroughWhenThereIsNothingToDo) {
  std::mt19937 random = FreshRandom();
  for (int channels = 1; channels <= 4; ++channels) {
    const ImageSpec spec{13, 17, channels, SampleType::kU16};
    const Image image = RandomImage(spec, random);
    UpscaleOptions options;
    options.result_type = SampleType::kU16;
    const UpscalePlan plan = Plan(spec, spec.size(), {}, options);
    EXPECT_EQ(plan.tile_count, 0);
    EXPECT_TRUE(SameImages(Upscale(plan, image, random).view(), image.view()));
  }
}

// The stages one by one over the whole image.
Image Compose(const UpscalePlan& plan, const Image& image) {
  const auto convert = [](const Image& image, ImageSpec spec) {
    spec.width_px = image.spec().width_px;
    spec.height_px = image.spec().height_px;
    Image result(spec);
    ConvertPixels(image.view(), result.mutable_view());
    return result;
  };
  Image now = convert(image, image.spec());
  if (plan.options.prefilter) {
    ViewRows rows(image.view());
    now = *test::ReadAll(*MakeBilateral(rows, *plan.options.prefilter));
  }
  if (!plan.passes.empty()) {
    const bool alpha = image.spec().has_alpha();
    now = convert(now, {0, 0, alpha ? 4 : 3, now.spec().type});
    if (alpha && plan.options.alpha_colour == AlphaColour::kBleed) {
      ViewRows rows(now.view());
      // The networks look 1 px far, and what sets their results right farther.
      const int bleed_px = plan.options.keep_colours ? 1 + kKeptColoursRounds * kKeptColoursBorderPx
                                                     : kGrayAreasBorderPx;
      now = *test::ReadAll(*MakeAlphaBleed(rows, bleed_px));
    }
  }
  for (size_t i = 0; i < plan.passes.size(); ++i) {
    const auto& network = static_cast<const FakeExecutable&>(*plan.passes[i].executable);
    const int scale = network.network().scale;
    const bool last = i + 1 == plan.passes.size() && now.spec().channels == plan.result.channels &&
                      Times(now.spec().size(), scale) == plan.result.size();
    const SampleType type = last ? plan.result.type : SampleType::kU16;
    now = ComputePass(network, now, plan.options, type);
  }
  if (now.spec().size() != plan.result.size()) {
    ViewRows rows(now.view());
    now = *test::ReadAll(
        *MakeResizer(rows, plan.result.size(), Filter::kLanczos3, plan.options.alpha_colour));
  }
  return convert(now, plan.result);
}

TEST(Upscaler, IsItsStagesOneByOneForEveryKindOfImage) {
  std::mt19937 random = FreshRandom();
  for (int round = 0; round < 50; ++round) {
    const ImageSpec spec{RandomInt(random, 1, 40), RandomInt(random, 1, 40),
                         RandomInt(random, 1, 4),
                         RandomInt(random, 0, 1) ? SampleType::kU8 : SampleType::kU16};
    const Image image = test::ArtImage(spec, random);
    Passes passes;
    int product = 1;
    for (int i = RandomInt(random, 0, 3); i > 0 && product < 8; --i) {
      passes.push_back(Fake(RandomInt(random, 1, 3)));
      product *= passes.back()->network().scale;
    }
    Size result = Times(spec.size(), product);
    if (RandomInt(random, 0, 1)) {
      result = {RandomInt(random, 1, 2 * result.width), RandomInt(random, 1, result.height)};
    }
    UpscaleOptions options = AnyCut(random);
    if (RandomInt(random, 0, 1)) options.prefilter = {0.5 * RandomInt(random, 1, 4), 30};
    options.tta = RandomInt(random, 0, 3) == 0;
    options.alpha = RandomInt(random, 0, 1) ? AlphaMethod::kNetwork : AlphaMethod::kResample;
    options.alpha_colour = RandomInt(random, 0, 1) ? AlphaColour::kBleed : AlphaColour::kKeep;
    options.result_type = RandomInt(random, 0, 1) ? SampleType::kU8 : SampleType::kU16;
    const UpscalePlan plan =
        Plan(spec, result, passes, options, static_cast<size_t>(RandomInt(random, 0, 1 << 20)));
    ASSERT_TRUE(SameImages(Upscale(plan, image, random).view(), Compose(plan, image).view()))
        << spec << " by " << product << " in " << passes.size() << " passes to " << plan.result
        << ", tile_px " << options.tile_px << ", tta " << options.tta << ", prefilter "
        << options.prefilter.has_value();
  }
}

TEST(Upscaler, LeavesNoHiddenColourInVisibleEdges) {
  // A white disc before transparent black: no visible pixel may get darker than the network makes
  // white, with any colour hidden under the transparency.
  const ImageSpec spec{40, 40, 4, SampleType::kU8};
  Image image(spec), white(spec);
  for (int y = 0; y < 40; ++y) {
    for (int x = 0; x < 40; ++x) {
      const bool inside = (x - 20) * (x - 20) + (y - 20) * (y - 20) < 150;
      std::fill_n(image.mutable_view().row(y) + 4 * x, 4, inside ? 255 : 0);
      std::fill_n(white.mutable_view().row(y) + 4 * x, 4, 255);
    }
  }
  std::mt19937 random = FreshRandom();
  const auto network = Fake(2);
  const UpscaleOptions options;
  const Image result = Upscale(Plan(spec, {80, 80}, {network}, options), image, random);
  const Image expected = ComputePass(*network, white, options, SampleType::kU8);
  for (int y = 0; y < 80; ++y) {
    for (int x = 0; x < 80; ++x) {
      if (result.view().row(y)[4 * x + 3] < 128) continue;
      for (int c = 0; c < 3; ++c) {
        ASSERT_EQ(result.view().row(y)[4 * x + c], expected.view().row(y)[4 * x + c]);
      }
    }
  }
}

TEST(Upscaler, KeepsColoursUnderTransparencyWhereTheyCount) {
  // As a texture has them: each pixel's colour is computed as if there were no alpha.
  std::mt19937 random = FreshRandom();
  const auto network = Fake(2);
  for (const Size result : {Size{80, 60}, Size{55, 50}}) {
    const Image rgb = RandomImage({40, 30, 3, SampleType::kU8}, random);
    Image rgba = test::ArtImage({40, 30, 4, SampleType::kU8}, random);
    for (int y = 0; y < 30; ++y) {
      for (int x = 0; x < 40; ++x) {
        std::copy_n(rgb.view().row(y) + 3 * x, 3, rgba.mutable_view().row(y) + 4 * x);
      }
    }
    UpscaleOptions options = AnyCut(random);
    options.alpha_colour = AlphaColour::kKeep;
    const Image colours = Upscale(Plan(rgb.spec(), result, {network}, options), rgb, random);
    const Image both = Upscale(Plan(rgba.spec(), result, {network}, options), rgba, random);
    for (int y = 0; y < result.height; ++y) {
      for (int i = 0; i < 3 * result.width; ++i) {
        ASSERT_EQ(both.view().row(y)[i / 3 * 4 + i % 3], colours.view().row(y)[i]);
      }
    }
  }
}

TEST(Upscaler, ReportsProgressForEveryTile) {
  std::mt19937 random = FreshRandom();
  for (const bool tta : {false, true}) {
    const ImageSpec spec{100, 90, 3, SampleType::kU8};
    const Image image = RandomImage(spec, random);
    UpscaleOptions options;
    options.tta = tta;
    options.tile_px = 40;
    const UpscalePlan plan = Plan(spec, Times(spec.size(), 4), {Fake(2), Fake(2)}, options);
    FakeBackend backend(1);
    const auto executor = MakeLocalExecutor(backend);
    ViewRows source(image.view());
    std::vector<int64_t> reports;
    UpscaleProgress progress{[&](int64_t done, int64_t total) {
      EXPECT_EQ(total, plan.tile_count);
      reports.push_back(done);
    }};
    {
      const auto upscaler = MakeUpscaler(plan, source, *executor, nullptr, progress);
      ASSERT_TRUE(test::ReadAll(*upscaler).ok());
    }
    ASSERT_EQ(reports.size(), static_cast<size_t>(plan.tile_count));
    for (size_t i = 0; i < reports.size(); ++i) {
      EXPECT_EQ(reports[i], static_cast<int64_t>(i + 1));
    }
  }
}

TEST(Upscaler, KeepsTheStreamsBusyWhileABandIsReadOut) {
  std::mt19937 random = FreshRandom();
  const ImageSpec spec{64, 1000, 3, SampleType::kU8};
  const Image image = RandomImage(spec, random);
  std::atomic<int> started = 0;
  absl::Notification next_band_started;
  FakeBackend backend(1, [&](const TileTask&) {
    if (++started == 2) next_band_started.Notify();
    return absl::OkStatus();
  });
  const auto executor = MakeLocalExecutor(backend);
  const UpscalePlan plan = Plan(spec, Times(spec.size(), 2), {Fake(2)});
  ViewRows source(image.view());
  const auto upscaler = MakeUpscaler(plan, source, *executor, nullptr);
  Image row({128, 1, 3, SampleType::kU8});
  ASSERT_TRUE(upscaler->ReadRows(row.mutable_view()).ok());
  next_band_started.WaitForNotification();  // though nobody asks for its rows
}

TEST(Upscaler, FailsWithTheStatusOfAFailedTile) {
  std::mt19937 random = FreshRandom();
  const ImageSpec spec{200, 200, 3, SampleType::kU8};
  const Image image = RandomImage(spec, random);
  for (const bool tta : {false, true}) {
    for (const int failing : {1, 2, 7, 20}) {
      std::atomic<int> started = 0;
      FakeBackend backend(2, [&](const TileTask&) {
        return ++started == failing ? absl::InternalError("lost device") : absl::OkStatus();
      });
      const auto executor = MakeLocalExecutor(backend);
      UpscaleOptions options;
      options.tta = tta;
      options.tile_px = 32;
      options.concurrency = 2;
      const UpscalePlan plan = Plan(spec, Times(spec.size(), 4), {Fake(2), Fake(2)}, options);
      ViewRows source(image.view());
      Cancellation cancellation;
      const auto upscaler = MakeUpscaler(plan, source, *executor, &cancellation);
      EXPECT_EQ(ReadAllInPortions(*upscaler, random).status(), absl::InternalError("lost device"));
      Image row({800, 1, 3, SampleType::kU8});
      EXPECT_EQ(upscaler->ReadRows(row.mutable_view()), absl::InternalError("lost device"));
      EXPECT_FALSE(cancellation.IsCancelled()) << "the caller's own";
    }
  }
}

// A source that fails after some rows.
class BrokenSource final : public RowSource {
 public:
  BrokenSource(const ImageSpec& spec, int good_rows) : spec_(spec), left_(good_rows) {}
  const ImageSpec& spec() const override { return spec_; }
  absl::Status ReadRows(MutableImageView rows) override {
    left_ -= rows.height_px();
    return left_ < 0 ? absl::InvalidArgumentError("png: truncated") : absl::OkStatus();
  }

 private:
  ImageSpec spec_;
  int left_;
};

TEST(Upscaler, FailsWithTheStatusOfItsSource) {
  std::mt19937 random = FreshRandom();
  const ImageSpec spec{50, 500, 3, SampleType::kU8};
  for (const int good_rows : {0, 100, 499}) {
    BrokenSource source(spec, good_rows);
    ShufflingExecutor executor(2, random());
    const UpscalePlan plan = Plan(spec, Times(spec.size(), 2), {Fake(2)});
    const auto upscaler = MakeUpscaler(plan, source, executor, nullptr);
    EXPECT_EQ(ReadAllInPortions(*upscaler, random).status(),
              absl::InvalidArgumentError("png: truncated"));
  }
}

TEST(Upscaler, ReturnsTheReasonOfACancellationAndDropsQueuedTiles) {
  std::mt19937 random = FreshRandom();
  const ImageSpec spec{200, 200, 3, SampleType::kU8};
  const Image image = RandomImage(spec, random);
  for (const bool tta : {false, true}) {
    std::atomic<int> started = 0;
    absl::Notification running, resume;
    FakeBackend backend(1, [&](const TileTask&) {
      if (++started == 3) {
        running.Notify();
        resume.WaitForNotification();
      }
      return absl::OkStatus();
    });
    const auto executor = MakeLocalExecutor(backend);
    UpscaleOptions options;
    options.tta = tta;
    options.tile_px = 32;
    const UpscalePlan plan = Plan(spec, Times(spec.size(), 2), {Fake(2)}, options);
    ViewRows source(image.view());
    Cancellation cancellation;
    std::thread canceller([&] {
      running.WaitForNotification();
      cancellation.Cancel(absl::DeadlineExceededError("late"));
      resume.Notify();
    });
    {
      const auto upscaler = MakeUpscaler(plan, source, *executor, &cancellation);
      EXPECT_EQ(ReadAllInPortions(*upscaler, random).status(), absl::DeadlineExceededError("late"));
    }
    EXPECT_EQ(started, 3) << "tiles ran after the cancellation";
    canceller.join();
  }
}

TEST(Upscaler, IsCancelledBeforeItBegins) {
  const ImageSpec spec{20, 20, 3, SampleType::kU8};
  std::mt19937 random = FreshRandom();
  const Image image = RandomImage(spec, random);
  FakeBackend backend(1, [&](const TileTask&) {
    ADD_FAILURE() << "a tile ran";
    return absl::OkStatus();
  });
  const auto executor = MakeLocalExecutor(backend);
  ViewRows source(image.view());
  Cancellation cancellation;
  cancellation.Cancel(absl::CancelledError("gone"));
  const auto upscaler =
      MakeUpscaler(Plan(spec, {40, 40}, {Fake(2)}), source, *executor, &cancellation);
  EXPECT_EQ(test::ReadAll(*upscaler).status(), absl::CancelledError("gone"));
}

TEST(Upscaler, DropsItsTilesWhenItIsAbandoned) {
  std::mt19937 random = FreshRandom();
  const ImageSpec spec{40, 2000, 3, SampleType::kU8};
  const Image image = RandomImage(spec, random);
  for (int round = 0; round < 30; ++round) {
    std::atomic<int> started = 0;
    FakeBackend backend(2, [&](const TileTask&) {
      ++started;
      return absl::OkStatus();
    });
    const auto executor = MakeLocalExecutor(backend);
    UpscaleOptions options;
    options.tta = round % 2;
    const UpscalePlan plan = Plan(spec, Times(spec.size(), 2), {Fake(2)}, options);
    ViewRows source(image.view());
    Image rows({80, RandomInt(random, 1, 200), 3, SampleType::kU8});
    ASSERT_TRUE(MakeUpscaler(plan, source, *executor, nullptr)->ReadRows(rows.mutable_view()).ok());
    EXPECT_LT(started, plan.tile_count);
  }
}

// Run under tsan: the end of a request races with its tiles and its cancellation.
TEST(Upscaler, SurvivesCancellationAtAnyMoment) {
  std::mt19937 random = FreshRandom();
  const ImageSpec spec{60, 120, 3, SampleType::kU8};
  const Image image = RandomImage(spec, random);
  FakeBackend backend(2);
  const auto executor = MakeLocalExecutor(backend);
  for (int round = 0; round < 100; ++round) {
    UpscaleOptions options;
    options.tta = round % 2;
    options.tile_px = 32;
    const UpscalePlan plan = Plan(spec, Times(spec.size(), 2), {Fake(2)}, options);
    Cancellation cancellation;
    std::thread canceller([&] { cancellation.Cancel(absl::CancelledError("enough")); });
    ViewRows source(image.view());
    {
      const auto upscaler = MakeUpscaler(plan, source, *executor, &cancellation);
      const auto result = ReadAllInPortions(*upscaler, random);
      if (!result.ok()) {
        EXPECT_EQ(result.status(), absl::CancelledError("enough"));
      }
    }
    canceller.join();
  }
}

TEST(PlanUpscale, DescribesTheWork) {
  UpscaleOptions options;
  options.concurrency = 2;
  const ImageSpec source{960, 540, 4, SampleType::kU8};
  const UpscalePlan plan = Plan(source, {1920, 1080}, {Fake(2, {512, 512})}, options);
  EXPECT_EQ(plan.result, (ImageSpec{1920, 1080, 4, SampleType::kU8}));
  EXPECT_EQ(plan.passes.size(), 1u);
  EXPECT_EQ(plan.tile_count % 2, 0);
  options.tta = true;
  EXPECT_EQ(Plan(source, {1920, 1080}, {Fake(2, {512, 512})}, options).tile_count % 16, 0);
}

// A small request may name a large image: it must not cost much before it is admitted.
TEST(PlanUpscale, TakesNoLongerForManyTiles) {
  for (const bool tta : {false, true}) {
    const auto calls = [tta](Size size) {
      const auto network = Fake(2);
      const ImageSpec source{size.width, size.height, 4, SampleType::kU8};
      Plan(source, Times(size, 2), {network}, {.tta = tta, .tile_px = 32});
      return network->plan_calls();
    };
    // Tiles at the corners, along the sides and in the middle are planned for their cost.
    EXPECT_EQ(calls({8000, 12000}), calls({96, 96}));
    EXPECT_LE(calls({8000, 12000}), calls({10, 20}) + 8);
  }
}

TEST(PlanUpscale, RefusesWhatItCannotDo) {
  const ImageSpec rgb{10, 10, 3, SampleType::kU8};
  const auto error = [](const ImageSpec& spec, Size result, const Passes& passes,
                        const UpscaleOptions& options) {
    const auto plan = PlanUpscale(spec, result, passes, options);
    EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(plan.status().message());
  };
  EXPECT_THAT(error({0, 10, 3}, {20, 20}, {}, {}), HasSubstr("0x10"));
  EXPECT_THAT(error({10, 10, 5}, {20, 20}, {}, {}), HasSubstr("5 channels"));
  EXPECT_THAT(error(rgb, {20, 0}, {}, {}), HasSubstr("20x0"));
  EXPECT_THAT(error(rgb, {20, 20}, {}, {.tile_px = -1}), HasSubstr("tile_px -1"));
  EXPECT_THAT(error(rgb, {20, 20}, {}, {.concurrency = 0}), HasSubstr("concurrency 0"));
  EXPECT_THAT(error(rgb, {20, 20}, {}, {.prefilter = BilateralOptions{8.1, 3}}), HasSubstr("8.1"));
  EXPECT_THAT(error(rgb, {20, 20}, {}, {.result_type = SampleType::kF32}), HasSubstr("kU16"));
  EXPECT_THAT(error({1 << 24, 1, 3}, {20, 20}, {Fake(2)}, {}), HasSubstr("16777216"));
  EXPECT_THAT(error({1024, 1025, 3}, {2048, 2050}, {Fake(2)}, {.tile_px = 1}),
              HasSubstr("1049600 tiles; the limit is 1048576"));
}

}  // namespace
}  // namespace upscaled
