#include "engine/autotune/measure_tile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/autotune/fake_candidates.h"

namespace upscaled {
namespace {

using test::FakeTiles;
using ::testing::Each;
using ::testing::Ge;
using ::testing::Pair;

constexpr absl::Duration kTileBudget = absl::Milliseconds(50);

TEST(MeasureTileTest, WhatComputesMostPixelsASecondWins) {
  FakeClock clock;
  // 4800, 6000 and 3000 pixels a millisecond.
  FakeTiles tiles(clock, {{{480, 270}, absl::Milliseconds(27)},
                          {{240, 540}, absl::Microseconds(21600)},
                          {{120, 540}, absl::Microseconds(21600)}});
  const TuningEntry entry = MeasureTile(tiles, kTileBudget, clock);
  EXPECT_EQ(entry.choice, "240x540");
  EXPECT_NEAR(entry.gflops.at("480x270"), 2 * FakeTiles::kMacsPerPixel * 4.8e6 * 1e-9, 1e-6);
  EXPECT_NEAR(entry.gflops.at("120x540"), 2 * FakeTiles::kMacsPerPixel * 3e6 * 1e-9, 1e-6);
}

TEST(MeasureTileTest, TheShippedOrderDecidesWhatIsNearlyAsFast) {
  FakeClock clock;
  FakeTiles tiles(clock,
                  {{{480, 270}, absl::Microseconds(1020)}, {{360, 360}, absl::Microseconds(1000)}});
  EXPECT_EQ(MeasureTile(tiles, kTileBudget, clock).choice, "480x270");
}

TEST(MeasureTileTest, EachRunsOnceBeforeItCountsAndTwiceWhateverTheBudget) {
  FakeClock clock;
  FakeTiles tiles(clock, {{{480, 270}, absl::Seconds(1)}, {{240, 540}, absl::Seconds(2)}});
  tiles.first_run_costs = absl::Seconds(9);
  EXPECT_EQ(MeasureTile(tiles, absl::ZeroDuration(), clock).choice, "480x270");
  EXPECT_THAT(tiles.runs, Each(Pair(testing::_, 3)));
}

}  // namespace
}  // namespace upscaled
