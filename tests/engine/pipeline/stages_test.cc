// The promises of every stage, of any kind: its input and output, and how far it looks.
#include "engine/pipeline/stages.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "engine/pipeline/tile_run.h"
#include "tests/engine/pipeline/fakes.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

using test::RandomInt;

// A plan with a random selection of the stages.
UpscalePlan RandomPlan(std::mt19937& random) {
  const ImageSpec source{RandomInt(random, 1, 40), RandomInt(random, 1, 40),
                         RandomInt(random, 1, 4),
                         RandomInt(random, 0, 1) ? SampleType::kU8 : SampleType::kU16};
  std::vector<std::shared_ptr<const Executable>> passes;
  int scale = 1;
  for (int i = RandomInt(random, 0, 2); i > 0; --i) {
    passes.push_back(std::make_shared<test::FakeExecutable>(RandomInt(random, 1, 3)));
    scale *= passes.back()->network().scale;
  }
  Size result{scale * source.width_px, scale * source.height_px};
  if (RandomInt(random, 0, 1)) {
    result = {RandomInt(random, 1, 2 * result.width), RandomInt(random, 1, result.height)};
  }
  UpscaleOptions options{.tta = RandomInt(random, 0, 3) == 0, .tile_px = RandomInt(random, 5, 20)};
  if (RandomInt(random, 0, 1)) options.prefilter = {0.5 * RandomInt(random, 1, 4), 30};
  options.keep_colours = RandomInt(random, 0, 1) == 1;
  options.alpha = RandomInt(random, 0, 1) ? AlphaMethod::kNetwork : AlphaMethod::kResample;
  options.alpha_colour = RandomInt(random, 0, 1) ? AlphaColour::kBleed : AlphaColour::kKeep;
  options.result_type = RandomInt(random, 0, 1) ? SampleType::kU8 : SampleType::kU16;
  const auto plan = PlanUpscale(source, result, passes, options);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return *plan;
}

TEST(Stages, LeadFromTheSourceToTheResultWithinThePlansMemory) {
  std::mt19937 random = test::FreshRandom();
  for (int round = 0; round < 200; ++round) {
    const UpscalePlan plan = RandomPlan(random);
    ImageSpec spec = plan.source;
    size_t memory_bytes = 0;
    for (const Stage& stage : plan.stages) {
      EXPECT_EQ(stage.source, spec);
      EXPECT_GT(stage.memory_bytes, 0u);
      memory_bytes += stage.memory_bytes;
      spec = stage.result;
    }
    EXPECT_EQ(spec, plan.result);
    EXPECT_GE(plan.memory_bytes, memory_bytes);
  }
}

Image RunStage(const Stage& stage, const Image& image) {
  test::ShufflingExecutor executor(1, 0);
  TileRun run(executor, /*cancellation=*/nullptr, {}, /*tile_count=*/0);
  test::ViewRows source(image.view());
  const auto rows = stage.make(source, run);
  EXPECT_EQ(rows->spec(), stage.result);
  absl::StatusOr<Image> result = test::ReadAll(*rows);
  run.AwaitAll();
  EXPECT_TRUE(result.ok()) << result.status();
  return *std::move(result);
}

// Whether the place of result sample `at` lies farther than `border_px` from source sample `from`.
bool IsBeyond(int at, int result_length, int from, int source_length, int border_px) {
  const double scale = static_cast<double>(source_length) / result_length;
  return at * scale > from + 1 + border_px || (at + 1) * scale < from - border_px;
}

TEST(Stages, LookNoFartherThanTheirBorder) {
  std::mt19937 random = test::FreshRandom();
  for (int round = 0; round < 50; ++round) {
    for (const Stage& stage : RandomPlan(random).stages) {
      Image image = test::ArtImage(stage.source, random);
      const Image before = RunStage(stage, image);
      const Size from = stage.source.size(), to = stage.result.size();
      const int x = RandomInt(random, 0, from.width - 1);
      const int y = RandomInt(random, 0, from.height - 1);
      const size_t pixel_bytes = stage.source.row_bytes() / static_cast<size_t>(from.width);
      uint8_t* pixel = image.mutable_view().row(y) + static_cast<size_t>(x) * pixel_bytes;
      for (size_t i = 0; i < pixel_bytes; ++i) pixel[i] = static_cast<uint8_t>(~pixel[i]);
      const Image after = RunStage(stage, image);
      const size_t result_bytes = stage.result.row_bytes() / static_cast<size_t>(to.width);
      for (int row = 0; row < to.height; ++row) {
        for (int column = 0; column < to.width; ++column) {
          if (!IsBeyond(column, to.width, x, from.width, stage.border_px) &&
              !IsBeyond(row, to.height, y, from.height, stage.border_px)) {
            continue;
          }
          const size_t at = static_cast<size_t>(column) * result_bytes;
          ASSERT_EQ(
              std::memcmp(before.view().row(row) + at, after.view().row(row) + at, result_bytes), 0)
              << stage.source << " to " << stage.result << ", border " << stage.border_px
              << ": pixel " << x << ", " << y << " reaches " << column << ", " << row;
        }
      }
    }
  }
}

}  // namespace
}  // namespace upscaled
