#include "server/net/io_thread.h"

#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/thread_count.h"

namespace upscaled::server {
namespace {

TEST(IoThreadTest, KeepsTheOrderOfTheCallsWhoeverMakesThem) {
  IoThread thread;
  std::vector<int> order;
  thread.RunAndWait([&] {
    thread.Post([&] { order.push_back(1); });
    std::thread([&] { thread.Post([&] { order.push_back(2); }); }).join();
    thread.Post([&] { order.push_back(3); });
  });
  thread.RunAndWait([] {});
  EXPECT_THAT(order, testing::ElementsAre(1, 2, 3));
}

TEST(IoThreadTest, MayStartWithItsFirstWork) {
  IoThread thread("late", IoThread::Start::kOnFirstPost);
  EXPECT_EQ(test::CountThreads("late"), 0);
  std::vector<int> order;
  thread.Post([&] { order.push_back(1); });
  thread.RunAndWait([&] {
    order.push_back(2);
    EXPECT_EQ(test::CountThreads("late"), 1);
  });
  EXPECT_THAT(order, testing::ElementsAre(1, 2));
}

TEST(IoThreadTest, StartsNoMoreOnceItIsStopped) {
  IoThread thread("late", IoThread::Start::kOnFirstPost);
  thread.Stop();
  bool has_run = false;
  thread.Post([&] { has_run = true; });
  thread.Stop();
  EXPECT_FALSE(has_run);
}

}  // namespace
}  // namespace upscaled::server
