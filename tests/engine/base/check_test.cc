#include "engine/base/check.h"

#include <gtest/gtest.h>

#include <csignal>

namespace {

TEST(CheckTest, PassesWhatHolds) {
  int evaluated = 0;
  UPSCALED_CHECK(++evaluated == 1);
  EXPECT_EQ(evaluated, 1);
}

TEST(CheckDeathTest, AbortsWithThePlaceAndTheCondition) {
  const int sides = 3;
  EXPECT_EXIT(UPSCALED_CHECK(sides == 4), testing::KilledBySignal(SIGABRT),
              "check_test.cc:[0-9]+: broken invariant: sides == 4");
}

}  // namespace
