#include "server/lifecycle/reloader.h"

#include <atomic>
#include <thread>

#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"

namespace upscaled::server {
namespace {

TEST(ReloaderTest, OnceForAllRequestsThatComeMeanwhile) {
  absl::Notification first_runs, go_on;
  std::atomic<int> reloads = 0;
  Reloader reloader([&] {
    if (++reloads > 1) return;
    first_runs.Notify();
    go_on.WaitForNotification();
  });
  EXPECT_FALSE(reloader.busy());
  reloader.Request();
  first_runs.WaitForNotification();
  EXPECT_TRUE(reloader.busy());
  for (int i = 0; i < 5; ++i) reloader.Request();
  go_on.Notify();
  while (reloads < 2 || reloader.busy()) std::this_thread::yield();
  EXPECT_EQ(reloads, 2);
}

}  // namespace
}  // namespace upscaled::server
