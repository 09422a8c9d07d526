#include "engine/base/steady_wait.h"

#include <gtest/gtest.h>

#include <thread>

#include "absl/time/clock.h"
#include "engine/base/clock.h"

namespace upscaled {
namespace {

TEST(SteadyConditionTest, GivesUpAfterItsTime) {
  absl::Mutex mutex;
  SteadyCondition condition;
  const absl::Time start = Clock::Real().Now();
  {
    absl::MutexLock lock(&mutex);
    EXPECT_FALSE(condition.Await(mutex, absl::Milliseconds(20), [] { return false; }));
    mutex.AssertHeld();
  }
  EXPECT_GE(Clock::Real().Now() - start, absl::Milliseconds(20));
}

TEST(SteadyConditionTest, NeedsNoTimeForWhatHolds) {
  absl::Mutex mutex;
  SteadyCondition condition;
  absl::MutexLock lock(&mutex);
  EXPECT_TRUE(condition.Await(mutex, absl::ZeroDuration(), [] { return true; }));
  EXPECT_TRUE(condition.Await(mutex, absl::InfiniteDuration(), [] { return true; }));
}

TEST(SteadyConditionTest, IsWokenByWhoeverChangesIt) {
  for (const absl::Duration timeout : {absl::Minutes(10), absl::InfiniteDuration()}) {
    absl::Mutex mutex;
    SteadyCondition condition;
    bool ready = false;
    std::thread other([&] {
      absl::MutexLock lock(&mutex);
      ready = true;
      condition.NotifyAll();
    });
    {
      absl::MutexLock lock(&mutex);
      EXPECT_TRUE(condition.Await(mutex, timeout, [&] { return ready; }));
    }
    other.join();
  }
}

TEST(ClockTest, BeginsAtTheSystemsTimeAndNeverGoesBack) {
  const absl::Time wall = absl::Now();
  absl::Time last = Clock::Real().Now();
  EXPECT_LT(absl::AbsDuration(last - wall), absl::Minutes(1));
  for (int i = 0; i < 1000; ++i) {
    const absl::Time now = Clock::Real().Now();
    EXPECT_GE(now, last);
    last = now;
  }
}

}  // namespace
}  // namespace upscaled
