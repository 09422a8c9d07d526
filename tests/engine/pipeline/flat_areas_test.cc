// Flat areas are copied instead of computed: the bytes are the same, the work is less.
#include "engine/pipeline/flat_areas.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "engine/pipeline/local_executor.h"
#include "engine/pipeline/upscaler.h"
#include "tests/engine/pipeline/fakes.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

using test::FakeExecutable;
using test::RandomInt;

struct Sparing {
  Image image;
  int64_t computed_px = 0;  // of all tiles, in source pixels of their passes
  int64_t spared_px = 0;
  int64_t progress = 0;
};

Sparing UpscaleSparing(const UpscalePlan& plan, const Image& image, std::mt19937& random) {
  std::atomic<int64_t> computed_px = 0, progress = 0;
  Sparing outcome;
  test::FakeBackend backend(2, [&](const TileTask& task) {
    computed_px += task.plan->tile.Area();
    return absl::OkStatus();
  });
  const auto executor = MakeLocalExecutor(backend);
  test::ViewRows source(image.view());
  const auto upscaler = MakeUpscaler(plan, source, *executor, nullptr,
                                     {.on_tile = [&](int64_t, int64_t) { ++progress; },
                                      .on_spared = [&](int64_t px) { outcome.spared_px += px; }});
  absl::StatusOr<Image> result = test::ReadAllInPortions(*upscaler, random);
  EXPECT_TRUE(result.ok()) << result.status();
  if (result.ok()) outcome.image = *std::move(result);
  outcome.computed_px = computed_px;
  outcome.progress = progress;
  return outcome;
}

UpscalePlan PlanFor(const ImageSpec& source, std::vector<int> scales, UpscaleOptions options,
                    Size preferred = {150, 150}) {
  std::vector<std::shared_ptr<const Executable>> passes;
  int scale = 1;
  for (const int factor : scales) {
    passes.push_back(std::make_shared<FakeExecutable>(factor, preferred));
    scale *= factor;
  }
  const auto plan =
      PlanUpscale(source, {source.width_px * scale, source.height_px * scale}, passes, options);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return *plan;
}

TEST(FlatAreas, NeverChangeTheBytes) {
  std::mt19937 random = test::FreshRandom();
  int64_t spared_px = 0, source_px = 0;
  for (int round = 0; round < 60; ++round) {
    const ImageSpec spec{RandomInt(random, 1, 400), RandomInt(random, 1, 400),
                         RandomInt(random, 3, 4),
                         RandomInt(random, 0, 1) ? SampleType::kU8 : SampleType::kU16};
    const Image image = test::PlainGroundImage(spec, random);
    UpscaleOptions options{.tta = RandomInt(random, 0, 3) == 0,
                           .tile_px = RandomInt(random, 40, 300),
                           .concurrency = RandomInt(random, 1, 3)};
    options.result_type = RandomInt(random, 0, 1) ? SampleType::kU8 : SampleType::kU16;
    const int scale = RandomInt(random, 1, 3);
    const Sparing spared = UpscaleSparing(PlanFor(spec, {scale}, options), image, random);
    options.spare_flat_areas = false;
    const Sparing computed = UpscaleSparing(PlanFor(spec, {scale}, options), image, random);
    ASSERT_TRUE(test::SameImages(spared.image.view(), computed.image.view()))
        << spec << ", tile_px " << options.tile_px << ", tta " << options.tta;
    EXPECT_EQ(computed.spared_px, 0);
    EXPECT_EQ(spared.progress > 0, computed.progress > 0);
    spared_px += spared.spared_px;
    source_px += spec.size().Area();
  }
  EXPECT_GT(spared_px, source_px / 20);  // the drawings have what the test is about
}

TEST(FlatAreas, AreFoundBetweenPasses) {
  std::mt19937 random = test::FreshRandom();
  int64_t spared_px = 0;
  for (int round = 0; round < 10; ++round) {
    const ImageSpec spec{RandomInt(random, 200, 300), RandomInt(random, 200, 300), 3,
                         SampleType::kU8};
    const Image image = test::PlainGroundImage(spec, random);
    UpscaleOptions options{.tta = round % 4 == 0, .tile_px = RandomInt(random, 100, 300)};
    const Sparing spared = UpscaleSparing(PlanFor(spec, {2, 1}, options), image, random);
    options.spare_flat_areas = false;
    const Sparing computed = UpscaleSparing(PlanFor(spec, {2, 1}, options), image, random);
    ASSERT_TRUE(test::SameImages(spared.image.view(), computed.image.view())) << spec;
    spared_px += std::max<int64_t>(0, spared.spared_px - spec.size().Area());
  }
  EXPECT_GT(spared_px, 0);  // more than the first pass alone can spare
}

TEST(FlatAreas, CostASmallImageInsteadOfAPlainOne) {
  std::mt19937 random = test::FreshRandom();
  for (const bool tta : {false, true}) {
    Image image({1000, 1000, 3, SampleType::kU8});
    std::memset(image.mutable_view().data, 50, image.bytes());
    const UpscalePlan plan = PlanFor(image.spec(), {2}, {.tta = tta});
    const Sparing outcome = UpscaleSparing(plan, image, random);
    EXPECT_EQ(outcome.spared_px, 1000 * 1000);
    EXPECT_LT(outcome.computed_px, (tta ? 8 : 1) * 100 * 100);
    EXPECT_GT(outcome.progress, 0);
  }
}

TEST(FlatAreas, HalfOfAPictureOnAPlainGroundIsSpared) {
  std::mt19937 random = test::FreshRandom();
  Image image({800, 600, 3, SampleType::kU8});
  std::memset(image.mutable_view().data, 255, image.bytes());
  const Image photo = test::PhotoImage({400, 300, 3, SampleType::kU8}, random);
  for (int y = 0; y < 300; ++y) {
    std::memcpy(image.mutable_view().row(150 + y) + size_t{3} * 200, photo.view().row(y), 1200);
  }
  const Sparing outcome = UpscaleSparing(PlanFor(image.spec(), {2}, {}), image, random);
  EXPECT_GT(outcome.spared_px, 0.5 * 800 * 600);  // of 0.75, in cells of 31 pixels
}

TEST(FlatAreas, CountEveryTileAsDone) {
  std::mt19937 random = test::FreshRandom();
  for (const bool tta : {false, true}) {
    const ImageSpec spec{500, 400, 3, SampleType::kU8};
    const Image image = test::PlainGroundImage(spec, random);
    const UpscalePlan plan = PlanFor(spec, {2}, {.tta = tta});
    test::FakeBackend backend(2);
    const auto executor = MakeLocalExecutor(backend);
    test::ViewRows source(image.view());
    std::atomic<int64_t> most = 0;
    const auto upscaler =
        MakeUpscaler(plan, source, *executor, nullptr, {.on_tile = [&](int64_t done, int64_t) {
                       for (int64_t seen = most; seen < done;)
                         most.compare_exchange_weak(seen, done);
                     }});
    ASSERT_TRUE(test::ReadAllInPortions(*upscaler, random).ok());
    EXPECT_EQ(most, plan.tile_count);
  }
}

}  // namespace
}  // namespace upscaled
