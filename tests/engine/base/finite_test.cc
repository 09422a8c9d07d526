#include "engine/base/finite.h"

#include <cmath>
#include <limits>
#include <vector>

#include "gtest/gtest.h"

namespace upscaled {
namespace {

TEST(AllFiniteTest, FindsTheOneThatIsNot) {
  constexpr int kCount = 37;  // whole vectors and a rest
  const float largest = std::numeric_limits<float>::max();
  for (const float other : {INFINITY, -INFINITY, std::nanf(""), -std::nanf("")}) {
    for (int i = 0; i < kCount; ++i) {
      std::vector<float> values(kCount, -largest);
      EXPECT_TRUE(AllFinite(values.data(), kCount));
      values[i] = other;
      EXPECT_FALSE(AllFinite(values.data(), kCount)) << other << " at " << i;
      EXPECT_TRUE(AllFinite(values.data(), i));
    }
  }
}

}  // namespace
}  // namespace upscaled
