#include "engine/pipeline/small_image.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/support/test_image.h"

namespace upscaled {
namespace {

TEST(SmallAxis, HasTheBordersAndThePhases) {
  std::mt19937 random = test::FreshRandom();
  for (int round = 0; round < 200; ++round) {
    const Reach reach{test::RandomInt(random, 0, 40), test::RandomInt(random, 1, 32)};
    const int length = test::RandomInt(random, 1, 400);
    const SmallAxis axis(length, reach);
    ASSERT_LE(axis.small(), length);
    ASSERT_EQ((length - axis.small()) % reach.repeat_px, 0);
    ASSERT_LE(axis.small(), 2 * (reach.halo_px + reach.repeat_px));
    for (int at = 0; at < length; ++at) {
      const int to = axis.At(at);
      ASSERT_GE(to, 0);
      ASSERT_LT(to, axis.small());
      EXPECT_EQ((at - to) % reach.repeat_px, 0);
      // As far from the ends, or far enough.
      const auto alike = [&](int a, int b) {
        return a == b || (a >= reach.halo_px && b >= reach.halo_px);
      };
      EXPECT_TRUE(alike(at, to));
      EXPECT_TRUE(alike(length - 1 - at, axis.small() - 1 - to));
      const int adjacent = axis.Adjacent(at);
      ASSERT_GE(adjacent, 1);
      ASSERT_LE(at + adjacent, length);
      ASSERT_LE(to + adjacent, axis.small());
      for (int i = 0; i < adjacent; ++i) {
        EXPECT_EQ((axis.At(at + i) - to - i) % reach.repeat_px, 0);
        EXPECT_TRUE(alike(at + i, to + i));
        EXPECT_TRUE(alike(length - 1 - at - i, axis.small() - 1 - to - i));
      }
    }
  }
}

}  // namespace
}  // namespace upscaled
