#include "engine/pipeline/small_image.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/support/test_image.h"

namespace upscaled {
namespace {

TEST(SmallAxis, HasTheBordersAndThePhases) {
  std::mt19937 random = test::FreshRandom();
  for (int round = 0; round < 200; ++round) {
    const int before = test::RandomInt(random, 0, 40), behind = test::RandomInt(random, 0, 40);
    const int repeat = test::RandomInt(random, 1, 32);
    const int length = test::RandomInt(random, 1, 400);
    const SmallAxis axis(length, before, behind, repeat);
    ASSERT_LE(axis.small(), length);
    ASSERT_EQ((length - axis.small()) % repeat, 0);
    ASSERT_LE(axis.small(), before + behind + 2 * repeat);
    for (int at = 0; at < length; ++at) {
      const int to = axis.At(at);
      ASSERT_GE(to, 0);
      ASSERT_LT(to, axis.small());
      EXPECT_EQ((at - to) % repeat, 0);
      // As far from the ends, or far enough.
      const auto alike = [](int a, int b, int halo) { return a == b || (a >= halo && b >= halo); };
      EXPECT_TRUE(alike(at, to, before));
      EXPECT_TRUE(alike(length - 1 - at, axis.small() - 1 - to, behind));
      const int adjacent = axis.Adjacent(at);
      ASSERT_GE(adjacent, 1);
      ASSERT_LE(at + adjacent, length);
      ASSERT_LE(to + adjacent, axis.small());
      for (int i = 0; i < adjacent; ++i) {
        EXPECT_EQ((axis.At(at + i) - to - i) % repeat, 0);
        EXPECT_TRUE(alike(at + i, to + i, before));
        EXPECT_TRUE(alike(length - 1 - at - i, axis.small() - 1 - to - i, behind));
      }
    }
  }
}

}  // namespace
}  // namespace upscaled
