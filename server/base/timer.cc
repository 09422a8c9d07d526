#include "server/base/timer.h"

#include <algorithm>
#include <exception>
#include <limits>
#include <utility>

#include "engine/base/thread_name.h"

namespace upscaled::server {
namespace {

// Keeps a helper for tasks that follow each other closely, and none between self-tests.
constexpr absl::Duration kHelperIdleTimeout = absl::Seconds(1);

}  // namespace

Timer::Timer(const Clock& clock, Helpers helpers)
    : clock_(clock),
      own_helpers_(std::numeric_limits<int>::max(), kHelperIdleTimeout),
      helpers_(
          helpers != nullptr
              ? std::move(helpers)
              : [this](std::function<void()> job) { return own_helpers_.Run(std::move(job)); }),
      thread_([this] { Loop(); }) {}

Timer::~Timer() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  news_.NotifyAll();
  thread_.join();
}

void Timer::Look() {
  absl::MutexLock lock(&mutex_);
  has_news_ = true;
  news_.NotifyAll();
}

void Timer::Loop() {
  NameThread("timer");
  while (true) {
    std::vector<Task*> due;
    {
      absl::MutexLock lock(&mutex_);
      news_.Await(mutex_, NextDue() - clock_.Now(), [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return stopping_ || has_news_;
      });
      if (stopping_) return;
      has_news_ = false;
      due = TakeDue();
    }
    for (Task* const task : due) Begin(*task);
  }
}

absl::Time Timer::NextDue() const {
  absl::Time next = absl::InfiniteFuture();
  for (const Task* const task : tasks_) {
    task->timer_.mutex_.AssertHeld();
    if (!task->running_) next = std::min(next, task->due_);
  }
  return next;
}

std::vector<Timer::Task*> Timer::TakeDue() {
  const absl::Time now = clock_.Now();
  std::vector<Task*> due;
  for (Task* const task : tasks_) {
    task->timer_.mutex_.AssertHeld();
    if (task->running_ || task->due_ > now) continue;
    task->running_ = true;
    task->due_ = absl::InfiniteFuture();
    due.push_back(task);
  }
  return due;
}

void Timer::Begin(Task& task) {
  if (task.length_ == Length::kQuick) return Run(task);
  bool has_begun = false;
  try {
    has_begun = helpers_([this, &task] { Run(task); });
  } catch (const std::bad_alloc&) {
  }
  if (!has_begun) End(task, Task::kRetryDelay);
}

void Timer::Run(Task& task) {
  absl::Duration pause = task.interval_;
  try {
    task.run_();
  } catch (const std::exception&) {  // no memory, no thread: other tasks go on
    pause = std::min(pause, Task::kRetryDelay);
  }
  End(task, pause);
}

void Timer::End(Task& task, absl::Duration pause) {
  absl::MutexLock lock(&mutex_);
  task.timer_.mutex_.AssertHeld();
  task.running_ = false;  // its owner may destroy it once the lock is free
  task.due_ = std::min(task.due_, clock_.Now() + pause);
  has_news_ = true;
  news_.NotifyAll();
}

Timer::Task::Task(Timer& timer, Length length, std::function<void()> run, absl::Duration interval)
    : timer_(timer),
      length_(length),
      run_(std::move(run)),
      interval_(interval),
      due_(timer.clock_.Now() + interval) {
  absl::MutexLock lock(&timer_.mutex_);
  timer_.tasks_.push_back(this);
  timer_.has_news_ = true;
  timer_.news_.NotifyAll();
}

Timer::Task::~Task() { Stop(); }

void Timer::Task::Request(absl::Duration delay) {
  absl::MutexLock lock(&timer_.mutex_);
  due_ = std::min(due_, timer_.clock_.Now() + delay);
  timer_.has_news_ = true;
  timer_.news_.NotifyAll();
}

void Timer::Task::Stop() {
  absl::MutexLock lock(&timer_.mutex_);
  std::erase(timer_.tasks_, this);
  const auto ended = [this]() ABSL_SHARED_LOCKS_REQUIRED(timer_.mutex_) { return !running_; };
  timer_.mutex_.Await(absl::Condition(&ended));
}

bool Timer::Task::busy() const {
  absl::MutexLock lock(&timer_.mutex_);
  return running_;
}

}  // namespace upscaled::server
