#include "engine/graph/pooling.h"

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "engine/model/shapes.h"
#include "engine/pipeline/tile_grid.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/backends/random_network.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

using test::Describe;
using test::FreshRandom;
using test::RandomInt;
using ::testing::ElementsAre;

TEST(PartialSumRectsTest, ThoseOfATilingCoverEachPixelOnce) {
  std::mt19937 random = FreshRandom();
  for (int i = 0; i < 50; ++i) {
    const Network network = test::RandomPooledNetwork(random);
    const Size image{RandomInt(random, 1, 60), RandomInt(random, 1, 60)};
    const TileGrid grid(image, {RandomInt(random, 1, 70), RandomInt(random, 1, 70)});
    const std::vector<int> poolings = ListPoolings(network);
    const std::vector<Size> sizes = LayerSizes(network, image);
    for (size_t p = 0; p < poolings.size(); ++p) {
      const int pooling = poolings[p];
      SCOPED_TRACE(Describe(network) + "pooling " + std::to_string(pooling));
      const Size layer = sizes[network.layers[pooling].inputs[0]];
      std::vector<int> owners(layer.Area());
      for (int tile = 0; tile < grid.count(); ++tile) {
        const Rect rect = grid.Tile(tile % grid.columns(), tile / grid.columns());
        const Rect part = PartialSumRects(network, poolings, image, sizes, rect)[p];
        ASSERT_TRUE((Rect{0, 0, layer.width, layer.height}.Contains(part)));
        for (int y = part.y; y < part.bottom(); ++y) {
          for (int x = part.x; x < part.right(); ++x) ++owners[y * layer.width + x];
        }
      }
      EXPECT_THAT(owners, ::testing::Each(1));
    }
  }
}

TEST(ChannelSumsTest, OrderAndGroupingDoNotMatter) {
  std::mt19937 random = FreshRandom();
  std::normal_distribution<float> normal(0.1f, 1.5f);
  std::vector<float> values(20000);
  for (float& value : values) value = std::exp(normal(random)) * (RandomInt(random, 0, 1) ? 1 : -1);
  double exact = 0;
  for (const float value : values) exact += value;
  ChannelMeans first;
  for (int round = 0; round < 5; ++round) {
    std::shuffle(values.begin(), values.end(), random);
    ChannelSums total(1);
    for (size_t begin = 0; begin < values.size();) {
      ChannelSums part(1);
      for (int runs = RandomInt(random, 0, 3); runs > 0; --runs) {
        double run = 0;
        for (int n = RandomInt(random, 0, ChannelSums::kExactRun); n > 0 && begin < values.size();
             --n) {
          run += ChannelSums::Round(values[begin++]);
        }
        part.Add(0, run);
      }
      total.Add(part);
    }
    const ChannelMeans means = total.Means(static_cast<int64_t>(values.size()));
    if (round == 0) first = means;
    EXPECT_EQ(means, first);
    EXPECT_NEAR(means[0], exact / static_cast<double>(values.size()), 1e-6);
  }
}

TEST(ChannelSumsTest, RoundsToItsUnitWithinItsLimits) {
  constexpr double kUnit = 1.0 / (1 << 24);
  EXPECT_EQ(ChannelSums::Round(0.75f * static_cast<float>(kUnit)), kUnit);
  EXPECT_EQ(ChannelSums::Round(-0.5f * static_cast<float>(kUnit)), 0);
  EXPECT_EQ(ChannelSums::Round(-65535.5f), -65535.5);
  EXPECT_EQ(ChannelSums::Round(1e9f), 65536);
  EXPECT_EQ(ChannelSums::Round(-1e9f), -65536);
  EXPECT_EQ(ChannelSums::Round(std::numeric_limits<float>::quiet_NaN()), 65536);
}

// More than 64 bits hold.
TEST(ChannelSumsTest, HoldsTheLargestLayers) {
  ChannelSums sums(2);
  constexpr int64_t kRuns = 100'000;
  for (int64_t i = 0; i < kRuns; ++i) {
    sums.Add(0, ChannelSums::kExactRun * 65536.0);
    sums.Add(1, ChannelSums::kExactRun * -65536.0);
  }
  EXPECT_THAT(sums.Means(kRuns * ChannelSums::kExactRun), ElementsAre(65536.0f, -65536.0f));
}

}  // namespace
}  // namespace upscaled
