#include "server/base/background_task.h"

#include <atomic>
#include <thread>

#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"

namespace upscaled::server {
namespace {

TEST(BackgroundTaskTest, OnceForAllRequestsThatComeMeanwhile) {
  absl::Notification first_runs, go_on;
  std::atomic<int> runs = 0;
  BackgroundTask task([&] {
    if (++runs > 1) return;
    first_runs.Notify();
    go_on.WaitForNotification();
  });
  EXPECT_FALSE(task.busy());
  task.Request();
  first_runs.WaitForNotification();
  EXPECT_TRUE(task.busy());
  for (int i = 0; i < 5; ++i) task.Request();
  go_on.Notify();
  while (runs < 2 || task.busy()) std::this_thread::yield();
  EXPECT_EQ(runs, 2);
}

TEST(BackgroundTaskTest, RunsOnItsOwnAfterEachInterval) {
  std::atomic<int> runs = 0;
  const BackgroundTask task([&] { ++runs; }, absl::Milliseconds(1));
  while (runs < 3) std::this_thread::yield();
}

}  // namespace
}  // namespace upscaled::server
