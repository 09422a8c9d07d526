// Time for polling threads, and for waiting ones.
#pragma once

#include <algorithm>
#include <stop_token>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/retry.h"

namespace upscaled::client {

// Sleeps of a second at most pass at once, and time with them; longer ones wait for Advance.
class PollingClock final : public RetryClock {
 public:
  absl::Time Now() override {
    absl::MutexLock lock(&mutex_);
    return now_;
  }
  void Sleep(absl::Duration duration, std::stop_token stop) override {
    // Locked: no waiter misses it.
    const std::stop_callback wake(stop, [this] { absl::MutexLock lock(&mutex_); });
    absl::MutexLock lock(&mutex_);
    const absl::Time end = now_ + duration;
    if (duration <= absl::Seconds(1)) now_ = end;
    const auto over = [&] {
      mutex_.AssertReaderHeld();
      return now_ >= end || stop.stop_requested();
    };
    mutex_.Await(absl::Condition(&over));
  }
  double Random() override { return 0; }

  void Advance(absl::Duration duration) {
    absl::MutexLock lock(&mutex_);
    now_ += duration;
  }

 private:
  absl::Mutex mutex_;
  absl::Time now_ ABSL_GUARDED_BY(mutex_) = absl::Now();
};

}  // namespace upscaled::client
