#include "server/base/background_task.h"

#include <atomic>

#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"
#include "tests/support/await.h"

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
  test::Await([&] { return runs >= 2 && !task.busy(); });
  EXPECT_EQ(runs, 2);
}

TEST(BackgroundTaskTest, RunsOnItsOwnAfterEachInterval) {
  std::atomic<int> runs = 0;
  const BackgroundTask task([&] { ++runs; }, absl::Milliseconds(1));
  test::Await([&] { return runs >= 3; });
}

}  // namespace
}  // namespace upscaled::server
