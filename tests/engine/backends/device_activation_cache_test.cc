#include "engine/backends/device_activation_cache.h"

#include <memory>
#include <span>
#include <vector>

#include <gtest/gtest.h>

namespace upscaled {
namespace {

struct Kept final : DeviceActivationCache {
  using DeviceActivationCache::DeviceActivationCache;
  void FreeTensors() override { freed = true; }

  bool freed = false;
};

class DeviceTileMemoryTest : public ::testing::Test {
 protected:
  // Of a network with three poolings, whose run number `run` it is.
  TileTask Run(size_t run) {
    TileTask task;
    task.means = std::span(means_).first(run);
    return task;
  }

  const std::vector<ChannelMeans> means_{3};
  const std::shared_ptr<ByteBudget> budget_ = std::make_shared<ByteBudget>(100);
};

TEST_F(DeviceTileMemoryTest, ServesRunsThatFollowEachOther) {
  Kept memory(budget_);
  for (size_t run = 0; run <= means_.size(); ++run) {
    EXPECT_TRUE(memory.Begin(Run(run), 60));
    memory.End(Run(run));
  }
  EXPECT_FALSE(memory.Begin(Run(means_.size()), 60)) << "it went on from there";
}

TEST_F(DeviceTileMemoryTest, IsOfNoUseAfterARunThatSkippedIt) {
  Kept memory(budget_);
  ASSERT_TRUE(memory.Begin(Run(0), 60));
  memory.End(Run(0));
  EXPECT_FALSE(memory.freed);
  EXPECT_FALSE(memory.Begin(Run(2), 60));
  EXPECT_TRUE(memory.freed);
  EXPECT_TRUE(budget_->Take(100));
  EXPECT_FALSE(memory.Begin(Run(1), 0));
}

TEST_F(DeviceTileMemoryTest, IsOfNoUseAfterARunThatDidNotEnd) {
  Kept memory(budget_);
  ASSERT_TRUE(memory.Begin(Run(0), 60));
  memory.End(Run(0));
  ASSERT_TRUE(memory.Begin(Run(1), 60));
  EXPECT_FALSE(memory.Begin(Run(1), 60));
  EXPECT_FALSE(memory.Begin(Run(2), 60));
}

TEST_F(DeviceTileMemoryTest, TakesItsBytesOnceAndGivesThemBack) {
  {
    Kept memory(budget_), another(budget_);
    ASSERT_TRUE(memory.Begin(Run(0), 60));
    memory.End(Run(0));
    ASSERT_TRUE(memory.Begin(Run(1), 60));
    EXPECT_FALSE(another.Begin(Run(0), 60));
    EXPECT_FALSE(another.Begin(Run(1), 10)) << "its first run went elsewhere";
  }
  EXPECT_TRUE(budget_->Take(100));
}

TEST_F(DeviceTileMemoryTest, BeginsAtThePoolingWhoseMeansAreNew) {
  const std::vector<int> poolings = {4, 9, 15};
  EXPECT_EQ(DeviceActivationCache::FirstLayer(poolings, Run(0)), 0);
  EXPECT_EQ(DeviceActivationCache::FirstLayer(poolings, Run(1)), 4);
  EXPECT_EQ(DeviceActivationCache::FirstLayer(poolings, Run(3)), 15);
}

}  // namespace
}  // namespace upscaled
