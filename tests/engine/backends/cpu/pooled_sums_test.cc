#include "engine/backends/cpu/kernels/pooled_sums.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
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
      PooledSumsFor(isa).floats(values.data(), pixels, sums.data());
      EXPECT_EQ(sums, expected) << pixels;
    }
    std::vector<double> sums(kHalfPlaneChannels), expected = sums;
    constexpr uint16_t kHalves[] = {0x3c00, 0xc000, 0x7e00, 0x7c00, 0x0001};
    constexpr float kValues[] = {1, -2, NAN, kInfinity, 0x1p-24f};
    uint16_t halves[5][kHalfPlaneChannels];
    for (int i = 0; i < 5; ++i) {
      std::fill_n(halves[i], kHalfPlaneChannels, kHalves[i]);
      for (double& sum : expected) sum += ChannelSums::Round(kValues[i]);
    }
    PooledSumsFor(isa).halves(reinterpret_cast<const float*>(halves), 5, sums.data());
    EXPECT_EQ(sums, expected);
  }
}

}  // namespace
}  // namespace upscaled::cpu
