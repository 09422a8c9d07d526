// Checks the server's readiness every few seconds, by calling it as a client would.
#pragma once

#include <functional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/base/timer.h"
#include "server/telemetry/logger.h"

namespace upscaled::server {

// Looks every few seconds, in a task of a timer, from Start to Stop. Thread safe.
class Readiness {
 public:
  struct Checks {
    // A call as a client makes it. May take some seconds, but must end.
    std::function<absl::Status()> self_call;
    // Whether something is about to run out. Quick.
    std::function<absl::Status()> resources;
  };
  // Called with no lock held, by the task.
  struct Hooks {
    std::function<void(bool ready)> on_change;
    std::function<void()> on_served;  // after every self call that went well
  };

  // One failed call may be chance: the second in a row counts, and is made sooner.
  static constexpr int kFailuresThatCount = 2;
  static constexpr absl::Duration kInterval = absl::Seconds(5);
  static constexpr absl::Duration kRetryInterval = absl::Seconds(1);

  // `timer`, `logger` and the captures of the functions must outlive it.
  Readiness(Timer& timer, Checks checks, Hooks hooks, Logger& logger);
  ~Readiness();  // as Stop, and waits for a running check

  void Start();
  // Nothing is reported or logged from now on.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

  // Checks once; returns when to do so again. By one thread at a time.
  absl::Duration Check() ABSL_LOCKS_EXCLUDED(mutex_);

  // OK, or why not: the last check's.
  absl::Status state() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Run() ABSL_LOCKS_EXCLUDED(mutex_);
  void Report(const absl::Status& state) ABSL_LOCKS_EXCLUDED(mutex_);

  const Checks checks_;
  const Hooks hooks_;
  Logger& logger_;
  int failures_ = 0;  // of self calls, in a row; used by the task
  mutable absl::Mutex mutex_;
  absl::Status state_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  Timer::Task task_;  // last: it uses what is above
};

}  // namespace upscaled::server
