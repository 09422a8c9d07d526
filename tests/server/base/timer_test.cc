#include "server/base/timer.h"

#include <atomic>
#include <functional>
#include <memory>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"
#include "tests/support/await.h"
#include "tests/support/fake_clock.h"

namespace upscaled::server {
namespace {

constexpr Timer::Length kLengths[] = {Timer::Length::kQuick, Timer::Length::kMayBlock};

class TimerTest : public testing::TestWithParam<Timer::Length> {
 protected:
  void Advance(absl::Duration by) {
    clock_.Advance(by);
    timer_.Look();
  }
  // Returns when the timer has begun all due tasks.
  void Settle() {
    absl::Notification last;
    Timer::Task task(timer_, Timer::Length::kQuick, [&] { last.Notify(); });
    task.Request();
    last.WaitForNotification();
  }

  FakeClock clock_;
  Timer timer_{clock_};
};

TEST_P(TimerTest, ATaskRunsOnceItsIntervalHasPassedSinceTheRunBefore) {
  std::atomic<int> runs = 0;
  const Timer::Task task(
      timer_, GetParam(), [&] { ++runs; }, absl::Seconds(10));
  Advance(absl::Seconds(9));
  Settle();
  EXPECT_EQ(runs, 0);
  for (int run = 1; run <= 3; ++run) {
    Advance(absl::Seconds(10));
    test::Await([&] { return runs == run && !task.busy(); });
    Settle();
    EXPECT_EQ(runs, run);
  }
}

TEST_P(TimerTest, ARequestRunsATaskEarlier) {
  std::atomic<int> runs = 0;
  Timer::Task task(
      timer_, GetParam(), [&] { ++runs; }, absl::Hours(1));
  task.Request(absl::Seconds(2));
  task.Request(absl::Seconds(5));  // shares the run
  Advance(absl::Seconds(1));
  Settle();
  EXPECT_EQ(runs, 0);
  Advance(absl::Seconds(1));
  test::Await([&] { return runs == 1 && !task.busy(); });
  Advance(absl::Minutes(30));
  Settle();
  EXPECT_EQ(runs, 1);
}

TEST_P(TimerTest, RequestsDuringARunLeadToOneMore) {
  absl::Notification first_runs, go_on;
  std::atomic<int> runs = 0;
  Timer::Task task(timer_, GetParam(), [&] {
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
  Settle();
  EXPECT_EQ(runs, 2);
}

TEST_P(TimerTest, ATaskThatThrowsRunsAgain) {
  std::atomic<int> runs = 0;
  Timer::Task task(timer_, GetParam(), [&] {
    if (++runs == 1) throw std::bad_alloc();
  });
  task.Request();
  test::Await([&] { return runs == 1 && !task.busy(); });
  Settle();
  EXPECT_EQ(runs, 1);
  Advance(Timer::Task::kRetryDelay);
  test::Await([&] { return runs == 2 && !task.busy(); });
}

TEST_P(TimerTest, ATasksEndWaitsForItsRunAndNoneFollows) {
  absl::Notification runs, ends;
  std::atomic<int> begun = 0, ended = 0;
  auto task = std::make_unique<Timer::Task>(timer_, GetParam(), [&] {
    if (++begun == 1) runs.Notify();
    ends.WaitForNotification();
    ++ended;
  });
  task->Request();
  runs.WaitForNotification();
  task->Request();  // runs as well if the first run ends before Stop comes
  std::thread ender([&] { ends.Notify(); });
  task.reset();
  const int before = begun;
  EXPECT_EQ(ended, before);
  ender.join();
  Settle();
  EXPECT_EQ(begun, before);
}

INSTANTIATE_TEST_SUITE_P(Lengths, TimerTest, testing::ValuesIn(kLengths));

TEST(TimerHelpersTest, BlockedTasksHoldUpNoOther) {
  constexpr int kTasks = 5;
  Timer timer;
  absl::BlockingCounter blocked(kTasks);
  absl::Notification go_on, other, quick;
  std::vector<std::unique_ptr<Timer::Task>> tasks;
  for (int i = 0; i < kTasks; ++i) {
    tasks.push_back(std::make_unique<Timer::Task>(timer, Timer::Length::kMayBlock, [&] {
      blocked.DecrementCount();
      go_on.WaitForNotification();
    }));
    tasks.back()->Request();
  }
  blocked.Wait();
  Timer::Task other_task(timer, Timer::Length::kMayBlock, [&] { other.Notify(); });
  Timer::Task quick_task(timer, Timer::Length::kQuick, [&] { quick.Notify(); });
  other_task.Request();
  quick_task.Request();
  other.WaitForNotification();
  quick.WaitForNotification();
  go_on.Notify();
}

// On the timer's thread a task would wait for another one forever.
TEST(TimerHelpersTest, WithoutAHelperATaskIsTriedLater) {
  FakeClock clock;
  std::atomic<int> refused = 0, runs = 0;
  std::atomic<bool> spare = false;
  ThreadPool helpers(1);
  Timer timer(clock, [&](std::function<void()> job) {
    if (spare) return helpers.Run(std::move(job));
    ++refused;
    return false;
  });
  const auto advance = [&](absl::Duration by) {
    clock.Advance(by);
    timer.Look();
  };
  std::atomic<int> quick_runs = 0;
  Timer::Task quick(timer, Timer::Length::kQuick, [&] { ++quick_runs; });
  Timer::Task task(timer, Timer::Length::kMayBlock, [&] {
    quick.Request();
    test::Await([&] { return quick_runs > 0; });
    ++runs;
  });
  task.Request();
  for (int tries = 1; tries <= 3; ++tries) {
    test::Await([&] { return refused == tries && !task.busy(); });
    advance(Timer::Task::kRetryDelay);
  }
  EXPECT_EQ(runs, 0);
  spare = true;
  advance(Timer::Task::kRetryDelay);
  test::Await([&] { return runs == 1 && !task.busy(); });
}

TEST(TimerHelpersTest, RealTimePasses) {
  std::atomic<int> runs = 0;
  Timer timer;
  const Timer::Task task(
      timer, Timer::Length::kQuick, [&] { ++runs; }, absl::Milliseconds(1));
  test::Await([&] { return runs >= 3; });
}

}  // namespace
}  // namespace upscaled::server
