#include "engine/graph/activation_cache.h"

#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "engine/graph/pooling.h"

namespace upscaled {
namespace {

struct Cache final : ActivationCache {
  using ActivationCache::ActivationCache;
  void FreeTensors() override { freed = true; }

  bool freed = false;
};

// The cache for a network with three poolings, so four passes.
class ActivationCacheTest : public ::testing::Test {
 protected:
  static constexpr size_t kResult = 3;

  const int owner_ = 0, stranger_ = 0;  // addresses
  const std::shared_ptr<ByteBudget> budget_ = std::make_shared<ByteBudget>(100);
};

TEST_F(ActivationCacheTest, ServesPassesThatFollowEachOther) {
  Cache cache(&owner_, budget_);
  for (size_t pass = 0; pass <= kResult; ++pass) {
    EXPECT_TRUE(cache.Begin(&owner_, pass, 60));
    cache.End(pass);
  }
  EXPECT_FALSE(cache.Begin(&owner_, kResult, 60)) << "it went on from there";
}

TEST_F(ActivationCacheTest, IsOfNoUseAfterAPassThatSkippedIt) {
  Cache cache(&owner_, budget_);
  ASSERT_TRUE(cache.Begin(&owner_, 0, 60));
  cache.End(0);
  EXPECT_FALSE(cache.freed);
  EXPECT_FALSE(cache.Begin(&owner_, 2, 60));
  EXPECT_TRUE(cache.freed);
  EXPECT_TRUE(budget_->Take(100));
  EXPECT_FALSE(cache.Begin(&owner_, 1, 0));
}

TEST_F(ActivationCacheTest, IsOfNoUseAfterAPassThatDidNotEnd) {
  Cache cache(&owner_, budget_);
  ASSERT_TRUE(cache.Begin(&owner_, 0, 60));
  cache.End(0);
  ASSERT_TRUE(cache.Begin(&owner_, 1, 60));
  EXPECT_FALSE(cache.Begin(&owner_, 1, 60));
  EXPECT_FALSE(cache.Begin(&owner_, 2, 60));
}

TEST_F(ActivationCacheTest, TakesItsBytesOnceAndGivesThemBack) {
  {
    Cache cache(&owner_, budget_), another(&owner_, budget_);
    ASSERT_TRUE(cache.Begin(&owner_, 0, 60));
    cache.End(0);
    ASSERT_TRUE(cache.Begin(&owner_, 1, 60));
    EXPECT_FALSE(another.Begin(&owner_, 0, 60));
    EXPECT_FALSE(another.Begin(&owner_, 1, 10)) << "its first pass went elsewhere";
  }
  EXPECT_TRUE(budget_->Take(100));
}

TEST_F(ActivationCacheTest, StrangersDoWithoutAndLeaveItAlone) {
  Cache cache(&owner_);
  EXPECT_FALSE(cache.Begin(&stranger_, 0, 60));
  EXPECT_TRUE(cache.Begin(&owner_, 0, size_t{1} << 40)) << "no budget, no limit";
  cache.End(0);
  EXPECT_FALSE(cache.Begin(&stranger_, 1, 60));
  EXPECT_FALSE(cache.freed);
  EXPECT_TRUE(cache.Begin(&owner_, 1, 60));
}

TEST(PoolingPassTest, BeginsAtThePoolingWhoseMeansAreNew) {
  const std::vector<int> poolings = {4, 9, 15};
  const std::vector<ChannelMeans> means(3);
  const auto first_layer = [&](size_t pass) {
    return PoolingPass{.means = std::span(means).first(pass)}.FirstCachedLayer(poolings);
  };
  EXPECT_EQ(first_layer(0), 0);
  EXPECT_EQ(first_layer(1), 4);
  EXPECT_EQ(first_layer(3), 15);
}

}  // namespace
}  // namespace upscaled
