// Waiting for a condition under an absl::Mutex with a time limit by the monotonic clock.
#pragma once

#include <chrono>
#include <condition_variable>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace upscaled {

// Mutex::AwaitWithTimeout counts its time by the system's clock: a clock set back prolongs the
// wait. This does not, but needs a notification for each change. Thread safe.
class SteadyCondition {
 public:
  // Call it after a change of the waiters' condition; you may hold the mutex.
  void NotifyAll() { condition_.notify_all(); }
  // Same as NotifyAll, but wakes only one waiter.
  void NotifyOne() { condition_.notify_one(); }

  // Waits until `holds()`, called under `mutex`; false if `timeout` passes first. `mutex` is held
  // by the caller.
  template <typename Predicate>
  bool Await(absl::Mutex& mutex, absl::Duration timeout, const Predicate& holds)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    Lockable lockable{mutex};
    if (timeout >= kForever) {
      condition_.wait(lockable, holds);
      return true;
    }
    return condition_.wait_for(lockable, absl::ToChronoNanoseconds(timeout), holds);
  }

 private:
  static constexpr absl::Duration kForever = absl::Hours(24 * 365);  // far from any overflow

  // absl::Mutex by the standard library's names.
  struct Lockable {
    absl::Mutex& mutex;
    void lock() ABSL_NO_THREAD_SAFETY_ANALYSIS { mutex.Lock(); }
    void unlock() ABSL_NO_THREAD_SAFETY_ANALYSIS { mutex.Unlock(); }
  };

  std::condition_variable_any condition_;
};

}  // namespace upscaled
