// Runs the server's recurring tasks: one thread knows when they are due, helpers run the blocking
// ones.
#pragma once

#include <functional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/base/clock.h"
#include "engine/base/steady_wait.h"
#include "server/base/thread_pool.h"

namespace upscaled::server {

// Thread safe. Must outlive its tasks.
class Timer {
 public:
  // kQuick: runs on the timer's thread, in a few milliseconds at most. kMayBlock: runs on a helper,
  // and after Task::kRetryDelay if the machine has no thread to spare.
  enum class Length { kQuick, kMayBlock };
  class Task;

  // Runs a job on a thread free to block, and later: ThreadPool::Run. False: no thread is left.
  using Helpers = std::function<bool(std::function<void()> job)>;

  // `clock` must outlive it. Throws std::system_error if there is no thread. `helpers` is for
  // tests; null: threads of the timer's own.
  explicit Timer(const Clock& clock = Clock::Real(), Helpers helpers = nullptr);
  ~Timer();
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  // Looks at the clock at once. For tests with their own clock.
  void Look() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Loop() ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Time NextDue() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<Task*> TakeDue() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Begin(Task& task) ABSL_LOCKS_EXCLUDED(mutex_);
  void Run(Task& task) ABSL_LOCKS_EXCLUDED(mutex_);
  // Makes the task due again after `pause`, or earlier.
  void End(Task& task, absl::Duration pause) ABSL_LOCKS_EXCLUDED(mutex_);

  const Clock& clock_;
  mutable absl::Mutex mutex_;
  SteadyCondition news_;
  bool has_news_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<Task*> tasks_ ABSL_GUARDED_BY(mutex_);
  ThreadPool own_helpers_;
  const Helpers helpers_;
  std::thread thread_;  // last: it uses what is above
};

// A task of a timer: one run after the other, from construction to Stop. Thread safe.
class Timer::Task {
 public:
  // `run` begins on request, and without one `interval` after the construction and after each run.
  // Its captures must outlive the task. If it throws, it runs again after kRetryDelay.
  Task(Timer& timer, Length length, std::function<void()> run,
       absl::Duration interval = absl::InfiniteDuration());
  // As Stop.
  ~Task();
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;

  static constexpr absl::Duration kRetryDelay = absl::Seconds(1);

  // Begins a run after `delay`, or earlier if one is due earlier. Requests before the begin of the
  // run share it. A request during a run leads to another one.
  void Request(absl::Duration delay = absl::ZeroDuration());
  // No further run becomes due. Waits for one due or running: do not call this from `run`.
  void Stop();
  bool busy() const;

 private:
  friend class Timer;

  Timer& timer_;
  const Length length_;
  const std::function<void()> run_;
  const absl::Duration interval_;
  absl::Time due_ ABSL_GUARDED_BY(timer_.mutex_);
  bool running_ ABSL_GUARDED_BY(timer_.mutex_) = false;
};

}  // namespace upscaled::server
