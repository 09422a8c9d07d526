// Threads for blocking jobs, one job at a time per thread.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <list>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/base/steady_wait.h"

namespace upscaled::server {

// Thread safe. Starts threads as jobs come, keeps idle ones for a while.
class ThreadPool {
 public:
  static constexpr absl::Duration kIdleTimeout = absl::Seconds(5);

  // Jobs beyond `max_threads` wait for a thread.
  explicit ThreadPool(int max_threads, absl::Duration idle_timeout = kIdleTimeout);
  // Waits for all jobs.
  ~ThreadPool();

  // false, and the job is dropped, when the machine gives not even one thread.
  [[nodiscard]] bool Run(std::function<void()> job) ABSL_LOCKS_EXCLUDED(mutex_);

  int thread_count() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  bool AddThread() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Loop(std::list<std::thread>::iterator self) ABSL_LOCKS_EXCLUDED(mutex_);

  const size_t max_threads_;
  const absl::Duration idle_timeout_;
  mutable absl::Mutex mutex_;
  SteadyCondition news_;  // for idle threads
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  size_t idle_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<std::function<void()>> jobs_ ABSL_GUARDED_BY(mutex_);
  std::list<std::thread> threads_ ABSL_GUARDED_BY(mutex_);
  std::list<std::thread> ended_ ABSL_GUARDED_BY(mutex_);  // to be joined
};

}  // namespace upscaled::server
