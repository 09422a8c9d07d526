// Time that passes only by sleeping.
#pragma once

#include <stop_token>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/retry.h"

namespace upscaled::client {

class FakeClock final : public RetryClock {
 public:
  absl::Time Now() override {
    absl::MutexLock lock(&mutex_);
    return now_;
  }
  void Sleep(absl::Duration duration, std::stop_token stop) override {
    if (stop.stop_requested()) return;
    absl::MutexLock lock(&mutex_);
    now_ += duration;
    sleeps_.push_back(duration);
  }
  double Random() override { return random; }

  std::vector<absl::Duration> sleeps() const {
    absl::MutexLock lock(&mutex_);
    return sleeps_;
  }

  // The value of Random; set before use.
  double random = 0;

 private:
  mutable absl::Mutex mutex_;
  // gRPC's deadlines are of the real time.
  absl::Time now_ ABSL_GUARDED_BY(mutex_) = absl::Now();
  std::vector<absl::Duration> sleeps_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace upscaled::client
