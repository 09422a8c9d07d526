// A task on a thread of its own, one run after the other.
#pragma once

#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/base/steady_wait.h"

namespace upscaled::server {

// Thread safe.
class BackgroundTask {
 public:
  // `run` may take long; its captures must outlive this. It runs on request, and without one after
  // every `interval`. Throws std::system_error when there is no thread.
  explicit BackgroundTask(std::function<void()> run,
                          absl::Duration interval = absl::InfiniteDuration());
  // Waits for a running run.
  ~BackgroundTask();

  // Soon; once for all requests that come before it begins.
  void Request() ABSL_LOCKS_EXCLUDED(mutex_);
  bool busy() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Loop() ABSL_LOCKS_EXCLUDED(mutex_);

  const std::function<void()> run_;
  const absl::Duration interval_;
  mutable absl::Mutex mutex_;
  SteadyCondition news_;
  bool requested_ ABSL_GUARDED_BY(mutex_) = false;
  bool running_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses what is above
};

}  // namespace upscaled::server
