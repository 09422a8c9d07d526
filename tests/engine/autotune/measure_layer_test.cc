#include "engine/autotune/measure_layer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/autotune/fake_candidates.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

using test::FakeCandidates;
using test::FakeKernel;
using test::FreshRandom;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Key;
using ::testing::UnorderedElementsAre;

constexpr absl::Duration kBudget = absl::Milliseconds(50);

class MeasureLayerTest : public ::testing::Test {
 protected:
  FakeCandidates Candidates(std::vector<FakeKernel> kernels) {
    std::mt19937 random = FreshRandom();
    const int kernel_px = test::RandomInt(random, 0, 3) * 2 + 1;
    return {clock_,
            test::FakeConv(test::RandomInt(random, 1, 9), test::RandomInt(random, 1, 9), kernel_px,
                           random),
            std::move(kernels)};
  }
  LayerMeasurement Measure(const FakeCandidates& candidates) {
    return MeasureLayer(candidates, kBudget, clock_);
  }

  FakeClock clock_;
};

TEST_F(MeasureLayerTest, TheFastestWins) {
  const FakeCandidates candidates = Candidates({{"first", absl::Microseconds(300)},
                                                {"second", absl::Microseconds(200)},
                                                {"third", absl::Microseconds(250)}});
  const LayerMeasurement measured = Measure(candidates);
  EXPECT_EQ(measured.entry.choice, "second");
  EXPECT_THAT(measured.wrong, IsEmpty());
  const auto& gflops = measured.entry.gflops;
  ASSERT_THAT(gflops, UnorderedElementsAre(Key("first"), Key("second"), Key("third")));
  EXPECT_NEAR(gflops.at("second") / gflops.at("first"), 1.5, 1e-9);
}

TEST_F(MeasureLayerTest, SpeedIsInOperationsOfTheDirectAlgorithm) {
  std::mt19937 random = FreshRandom();
  const FakeCandidates candidates(clock_, test::FakeConv(2, 5, 1, random),
                                  {{"only", absl::Milliseconds(1)}});
  EXPECT_NEAR(Measure(candidates).entry.gflops.at("only"), 2.0 * 2 * 5 * 168 * 12 * 1e-6, 1e-9);
}

TEST_F(MeasureLayerTest, TheShippedOrderDecidesWhatIsNearlyAsFast) {
  EXPECT_EQ(
      Measure(Candidates({{"first", absl::Microseconds(102)}, {"second", absl::Microseconds(100)}}))
          .entry.choice,
      "first");
}

TEST_F(MeasureLayerTest, AWrongKernelIsNotTakenHoweverFast) {
  const LayerMeasurement measured =
      Measure(Candidates({{"first", absl::Microseconds(300)},
                          {"second", absl::Microseconds(10), /*right=*/false},
                          {"third", absl::Microseconds(100)}}));
  EXPECT_EQ(measured.entry.choice, "third");
  EXPECT_THAT(measured.wrong, ElementsAre("second"));
  EXPECT_FALSE(measured.entry.gflops.contains("second"));
}

TEST_F(MeasureLayerTest, ComparesAsMuchAsTheCandidatesAskFor) {
  FakeCandidates candidates =
      Candidates({{"first", absl::Microseconds(300)},
                  {.name = "second", .time = absl::Microseconds(10), .right_rows = 32}});
  EXPECT_EQ(Measure(candidates).entry.choice, "second");
  candidates.checked = {35, 35};
  EXPECT_THAT(Measure(candidates).wrong, ElementsAre("second"));
}

TEST_F(MeasureLayerTest, AWrongFirstKernelIsNotTakenEither) {
  EXPECT_EQ(Measure(Candidates({{"first", absl::Microseconds(10), /*right=*/false},
                                {"second", absl::Microseconds(100)}}))
                .entry.choice,
            "second");
}

TEST_F(MeasureLayerTest, WithoutARightOneTheShippedOrderStays) {
  const LayerMeasurement measured =
      Measure(Candidates({{"first", absl::Microseconds(30), /*right=*/false},
                          {"second", absl::Microseconds(10), /*right=*/false}}));
  EXPECT_EQ(measured.entry.choice, "first");
  EXPECT_THAT(measured.wrong, ElementsAre("first", "second"));
}

TEST_F(MeasureLayerTest, WhatDoesNotRunIsNotCalledWrong) {
  const LayerMeasurement measured =
      Measure(Candidates({{"first", absl::Microseconds(1), /*right=*/true, /*runs=*/false},
                          {"second", absl::Microseconds(10)}}));
  EXPECT_EQ(measured.entry.choice, "second");
  EXPECT_THAT(measured.wrong, IsEmpty());
  EXPECT_THAT(measured.refused, ElementsAre("first"));
  EXPECT_THAT(measured.entry.gflops, ElementsAre(Key("second")));
}

TEST_F(MeasureLayerTest, KeepsToTheBudget) {
  const FakeCandidates candidates =
      Candidates({{"first", absl::Milliseconds(1)}, {"slow", absl::Milliseconds(10)}});
  const absl::Time start = clock_.Now();
  EXPECT_EQ(Measure(candidates).entry.choice, "first");
  EXPECT_EQ(candidates.runs.at("slow"), 2);
  EXPECT_GT(candidates.runs.at("first"), 20);
  EXPECT_LT(clock_.Now() - start, kBudget + absl::Milliseconds(2));
}

TEST_F(MeasureLayerTest, BeyondTheBudgetEachStillRunsTwice) {
  const FakeCandidates candidates =
      Candidates({{"first", absl::Seconds(2)}, {"second", absl::Seconds(1.5)}});
  EXPECT_EQ(Measure(candidates).entry.choice, "second");
  EXPECT_EQ(candidates.runs.at("first"), 2);
  EXPECT_EQ(candidates.runs.at("second"), 2);
}

}  // namespace
}  // namespace upscaled
