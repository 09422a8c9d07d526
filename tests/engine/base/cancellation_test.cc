#include "engine/base/cancellation.h"

#include <atomic>
#include <thread>

#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"

namespace upscaled {
namespace {

TEST(CancellationTest, FirstReasonWins) {
  Cancellation cancellation;
  EXPECT_FALSE(cancellation.IsCancelled());
  cancellation.Cancel(absl::DeadlineExceededError("late"));
  cancellation.Cancel(absl::CancelledError("gone"));
  EXPECT_EQ(cancellation.status().code(), absl::StatusCode::kDeadlineExceeded);
}

TEST(CancellationTest, RunsEachCallbackOnce) {
  Cancellation cancellation;
  int early = 0, late = 0;
  auto first = cancellation.OnCancel([&] { ++early; });
  cancellation.Cancel(absl::CancelledError(""));
  cancellation.Cancel(absl::CancelledError(""));
  auto second = cancellation.OnCancel([&] { ++late; });
  EXPECT_EQ(early, 1);
  EXPECT_EQ(late, 1);
}

TEST(CancellationTest, ResetRegistrationDoesNotRun) {
  Cancellation cancellation;
  bool ran = false;
  auto registration = cancellation.OnCancel([&] { ran = true; });
  registration.Reset();
  cancellation.Cancel(absl::CancelledError(""));
  EXPECT_FALSE(ran);
}

TEST(CancellationTest, ACallbackMayDropItsOwnRegistration) {
  Cancellation cancellation;
  Cancellation::Registration registration;
  registration = cancellation.OnCancel([&] { registration.Reset(); });
  cancellation.Cancel(absl::CancelledError(""));
}

TEST(CancellationTest, ResetWaitsForARunningCallback) {
  Cancellation cancellation;
  absl::Notification started, release;
  std::atomic<bool> finished = false;
  auto registration = cancellation.OnCancel([&] {
    started.Notify();
    release.WaitForNotification();
    finished = true;
  });
  std::thread canceller([&] { cancellation.Cancel(absl::CancelledError("")); });
  started.WaitForNotification();
  std::thread releaser([&] { release.Notify(); });
  registration.Reset();
  EXPECT_TRUE(finished);
  canceller.join();
  releaser.join();
}

}  // namespace
}  // namespace upscaled
