#include "server/base/thread_pool.h"

#include <atomic>
#include <functional>
#include <set>
#include <thread>
#include <utility>

#include <gtest/gtest.h>

#include "absl/synchronization/barrier.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/mutex.h"
#include "tests/support/await.h"

namespace upscaled::server {
namespace {

void Start(ThreadPool& workers, std::function<void()> job) {
  EXPECT_TRUE(workers.Run(std::move(job)));
}

TEST(ThreadPoolTest, RunsJobsSideBySide) {
  constexpr int kJobs = 5;
  ThreadPool workers(kJobs, absl::Seconds(60));
  auto* const barrier = new absl::Barrier(kJobs);  // the last one deletes it
  absl::BlockingCounter done(kJobs);
  for (int i = 0; i < kJobs; ++i) {
    Start(workers, [&] {
      if (barrier->Block()) delete barrier;
      done.DecrementCount();
    });
  }
  done.Wait();
  EXPECT_EQ(workers.thread_count(), kJobs);
}

TEST(ThreadPoolTest, UsesIdleThreadsAgain) {
  constexpr int kJobs = 100;
  ThreadPool workers(kJobs, absl::Seconds(60));
  for (int i = 0; i < kJobs; ++i) {
    absl::BlockingCounter done(1);
    Start(workers, [&] { done.DecrementCount(); });
    done.Wait();
  }
  // A thread just through with a job may not be idle yet when the next one comes, but not always.
  EXPECT_LT(workers.thread_count(), kJobs);
}

TEST(ThreadPoolTest, JobsBeyondTheThreadsWait) {
  std::atomic<int> running = 0, most = 0, ran = 0;
  {
    ThreadPool workers(3, absl::Seconds(60));
    for (int i = 0; i < 50; ++i) {
      Start(workers, [&] {
        const int now = ++running;
        for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
        }
        std::this_thread::yield();
        --running;
        ++ran;
      });
    }
    EXPECT_LE(workers.thread_count(), 3);
  }
  EXPECT_EQ(ran, 50);  // the destructor waits
  EXPECT_LE(most, 3);
}

TEST(ThreadPoolTest, IdleThreadsEnd) {
  ThreadPool workers(4, absl::Milliseconds(1));
  absl::BlockingCounter done(4);
  for (int i = 0; i < 4; ++i) Start(workers, [&] { done.DecrementCount(); });
  done.Wait();
  test::Await([&] { return workers.thread_count() == 0; });
  absl::BlockingCounter again(1);
  Start(workers, [&] { again.DecrementCount(); });
  again.Wait();
}

}  // namespace
}  // namespace upscaled::server
