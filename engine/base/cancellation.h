// One request's stop signal, shared by all its workers.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"

namespace upscaled {

// Thread safe. Cancelled at most once: the first reason (CANCELLED, DEADLINE_EXCEEDED, ...) wins.
class Cancellation {
 public:
  // Unregisters its callback when destroyed. After the destructor returns the callback is not
  // running and will not run (unless it is destroyed by the callback itself, on the same thread).
  class Registration {
   public:
    Registration() = default;
    Registration(Registration&& other) noexcept;
    Registration& operator=(Registration&& other) noexcept;
    ~Registration() { Reset(); }
    void Reset();

   private:
    friend class Cancellation;
    Registration(Cancellation* owner, int64_t id) : owner_(owner), id_(id) {}
    Cancellation* owner_ = nullptr;
    int64_t id_ = 0;
  };

  Cancellation() = default;
  Cancellation(const Cancellation&) = delete;
  Cancellation& operator=(const Cancellation&) = delete;

  // `reason` must not be OK. Runs the registered callbacks on this thread, with no lock held.
  void Cancel(absl::Status reason) ABSL_LOCKS_EXCLUDED(mutex_);

  bool IsCancelled() const { return !status().ok(); }
  // OK until cancelled, then the reason.
  absl::Status status() const ABSL_LOCKS_EXCLUDED(mutex_);

  // `callback` runs once: on cancellation, or right here if it is already cancelled.
  [[nodiscard]] Registration OnCancel(std::function<void()> callback) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Unregister(int64_t id) ABSL_LOCKS_EXCLUDED(mutex_);

  mutable absl::Mutex mutex_;
  absl::Status reason_ ABSL_GUARDED_BY(mutex_);
  int64_t next_id_ ABSL_GUARDED_BY(mutex_) = 1;
  int64_t running_id_ ABSL_GUARDED_BY(mutex_) = 0;
  std::thread::id canceller_ ABSL_GUARDED_BY(mutex_);
  std::map<int64_t, std::function<void()>> callbacks_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace upscaled
