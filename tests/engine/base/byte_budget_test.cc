#include "engine/base/byte_budget.h"

#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace upscaled {
namespace {

TEST(ByteBudgetTest, GivesAllOrNothing) {
  ByteBudget budget(100);
  EXPECT_TRUE(budget.Take(60));
  EXPECT_FALSE(budget.Take(41));
  EXPECT_TRUE(budget.Take(40));
  EXPECT_FALSE(budget.Take(1));
  EXPECT_TRUE(budget.Take(0));
  budget.Return(60);
  EXPECT_TRUE(budget.Take(60));
}

TEST(ByteBudgetTest, LosesNothingAmongThreads) {
  constexpr int kBytes = 3;
  ByteBudget budget(kBytes);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&budget] {
      for (int i = 0; i < 10000; ++i) {
        if (budget.Take(2)) budget.Return(2);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(budget.Take(kBytes));
  EXPECT_FALSE(budget.Take(1));
}

}  // namespace
}  // namespace upscaled
