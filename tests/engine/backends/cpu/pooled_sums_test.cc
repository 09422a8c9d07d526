#include "engine/backends/cpu/kernels/pooled_sums.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "engine/backends/cpu/kernels/args.h"
#include "engine/graph/pooling.h"
#include "tests/support/test_image.h"

namespace upscaled::cpu {
namespace {

// Each value is rounded as the reference rounds it, and sums of such are exact.
TEST(PooledSumsTest, AreTheSumsOfRoundedValues) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kLimit = ChannelSums::kLimit;
  std::vector<float> values = {NAN,    -NAN,     kInfinity, -kInfinity, kLimit, -kLimit,
                               -1e30f, 0x1p-24f, 0x1p-25f,  0x1.8p-24f, -0.0f,  65535.996f};
  std::mt19937 random = test::FreshRandom();
  std::uniform_real_distribution<float> any(-3.0f, 3.0f);
  while (values.size() < size_t{kPlaneChannels} * 37) values.push_back(any(random));
  for (const Isa isa : ListIsas()) {
    SCOPED_TRACE(std::string(IsaName(isa)));
    for (const int pixels : {0, 1, 2, 37}) {
      std::vector<double> sums(kPlaneChannels, 0.5), expected = sums;
      for (int i = 0; i < pixels * kPlaneChannels; ++i) {
        expected[i % kPlaneChannels] += ChannelSums::Round(values[i]);
      }
      SumPixelsFor(isa)(values.data(), pixels, sums.data());
      EXPECT_EQ(sums, expected) << pixels;
    }
  }
}

}  // namespace
}  // namespace upscaled::cpu
