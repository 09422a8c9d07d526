#include "server/spool/disk_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "tests/server/spool/await_disk_work.h"
#include "tests/support/await.h"
#include "tests/support/fake_clock.h"

namespace upscaled::server {
namespace {

TEST(DiskQueueTest, RunsOneAfterTheOtherInTheOrderOfTheCalls) {
  Timer timer;
  DiskQueue queue(timer);
  std::vector<int> order;  // not guarded: two at a time would be a race
  for (int i = 0; i < 1000; ++i) queue.Post([&order, i] { order.push_back(i); });
  AwaitDiskWork(queue);
  std::vector<int> expected(1000);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(order, expected);
}

TEST(DiskQueueTest, WorkMayPostMore) {
  Timer timer;
  DiskQueue queue(timer);
  absl::Notification done;
  queue.Post([&] { queue.Post([&] { done.Notify(); }); });
  done.WaitForNotification();
}

TEST(DiskQueueTest, CloseDropsWhatHasNotBegunAndWaitsForWhatHas) {
  Timer timer;
  DiskQueue queue(timer);
  absl::Notification begun, go;
  std::atomic<bool> ended = false, dropped_ran = false;
  const auto held = std::make_shared<int>();
  queue.Post([&] {
    begun.Notify();
    go.WaitForNotification();
    ended = true;
  });
  queue.Post([&dropped_ran, held] { dropped_ran = true; });
  begun.WaitForNotification();
  std::thread closer([&] {
    queue.Close();
    EXPECT_TRUE(ended);
  });
  test::Await([&] {
    queue.Post([held] {});  // dropped at once, as soon as it is closed
    return held.use_count() == 1;
  });
  go.Notify();
  closer.join();
  EXPECT_FALSE(dropped_ran);
  queue.Close();  // again
}

TEST(DiskQueueTest, KeepsItsWorkWhileThereIsNoThread) {
  FakeClock clock;
  std::atomic<bool> has_thread = false;
  std::atomic<int> refused = 0;
  ThreadPool threads(1);
  Timer timer(clock, [&](std::function<void()> job) {
    if (has_thread) return threads.Run(std::move(job));
    ++refused;
    return false;
  });
  DiskQueue queue(timer);
  std::atomic<int> runs = 0;
  queue.Post([&] { ++runs; });
  queue.Post([&] { ++runs; });
  test::Await([&] { return refused > 0; });
  EXPECT_EQ(runs, 0);
  has_thread = true;
  test::Await([&] {
    clock.Advance(Timer::Task::kRetryDelay);
    timer.Look();
    return runs == 2;
  });
}

}  // namespace
}  // namespace upscaled::server
