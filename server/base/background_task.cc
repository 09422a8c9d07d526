#include "server/base/background_task.h"

#include <utility>

namespace upscaled::server {

BackgroundTask::BackgroundTask(std::function<void()> run, absl::Duration interval)
    : run_(std::move(run)), interval_(interval), thread_([this] { Loop(); }) {}

BackgroundTask::~BackgroundTask() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  news_.NotifyAll();
  thread_.join();
}

void BackgroundTask::Request() {
  {
    absl::MutexLock lock(&mutex_);
    if (std::exchange(requested_, true)) return;
  }
  news_.NotifyAll();
}

bool BackgroundTask::busy() const {
  absl::MutexLock lock(&mutex_);
  return running_;
}

void BackgroundTask::Loop() {
  while (true) {
    {
      absl::MutexLock lock(&mutex_);
      running_ = false;
      news_.Await(mutex_, interval_, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return stopping_ || requested_;
      });
      if (stopping_) return;
      requested_ = false;
      running_ = true;
    }
    run_();
  }
}

}  // namespace upscaled::server
