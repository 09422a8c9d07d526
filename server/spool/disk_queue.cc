#include "server/spool/disk_queue.h"

#include <utility>

namespace upscaled::server {

DiskQueue::DiskQueue(Timer& timer)
    : task_(std::make_unique<Timer::Task>(timer, Timer::Length::kMayBlock, [this] { RunAll(); })) {}

void DiskQueue::Post(std::function<void()> work) {
  absl::MutexLock lock(&mutex_);
  if (task_ == nullptr) return;
  work_.push_back(std::move(work));
  task_->Request();
}

void DiskQueue::Close() {
  std::unique_ptr<Timer::Task> task;  // destroyed with no lock held, after the work
  std::deque<std::function<void()>> dropped;
  absl::MutexLock lock(&mutex_);
  dropped.swap(work_);
  task.swap(task_);
}

void DiskQueue::RunAll() {
  while (const std::function<void()> work = Take()) work();
}

std::function<void()> DiskQueue::Take() {
  absl::MutexLock lock(&mutex_);
  if (work_.empty()) return nullptr;
  std::function<void()> first = std::move(work_.front());
  work_.pop_front();
  return first;
}

}  // namespace upscaled::server
