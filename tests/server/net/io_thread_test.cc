#include "server/net/io_thread.h"

#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace upscaled::server
