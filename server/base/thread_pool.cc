#include "server/base/thread_pool.h"

#include <new>
#include <system_error>
#include <utility>

#include "engine/base/thread_name.h"

namespace upscaled::server {
namespace {

void JoinAll(std::list<std::thread>& threads) {
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

ThreadPool::ThreadPool(int max_threads, absl::Duration idle_timeout)
    : max_threads_(static_cast<size_t>(max_threads)), idle_timeout_(idle_timeout) {}

ThreadPool::~ThreadPool() {
  absl::MutexLock lock(&mutex_);
  stopping_ = true;
  news_.NotifyAll();
  const auto all_ended = [this]()
                             ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return threads_.empty(); };
  mutex_.Await(absl::Condition(&all_ended));
  JoinAll(ended_);
}

bool ThreadPool::Run(std::function<void()> job) {
  std::list<std::thread> ended;
  {
    absl::MutexLock lock(&mutex_);
    jobs_.push_back(std::move(job));
    news_.NotifyOne();
    if (jobs_.size() > idle_ && threads_.size() < max_threads_ && !AddThread() &&
        threads_.empty()) {
      jobs_.pop_back();
      return false;
    }
    ended.swap(ended_);
  }
  JoinAll(ended);
  return true;
}

// false: there is no memory or no thread, and the others will come to the job.
bool ThreadPool::AddThread() {
  try {
    std::list<std::thread> added(1);
    const auto self = added.begin();
    *self = std::thread([this, self] { Loop(self); });
    threads_.splice(threads_.end(), added);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  } catch (const std::system_error&) {
    return false;
  }
}

void ThreadPool::Loop(std::list<std::thread>::iterator self) {
  NameThread("worker");
  absl::MutexLock lock(&mutex_);
  while (true) {
    ++idle_;
    news_.Await(mutex_, idle_timeout_, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return stopping_ || !jobs_.empty();
    });
    --idle_;
    if (jobs_.empty()) break;
    std::function<void()> job = std::move(jobs_.front());
    jobs_.pop_front();
    mutex_.Unlock();
    job();
    job = nullptr;
    mutex_.Lock();
  }
  ended_.splice(ended_.end(), threads_, self);
}

int ThreadPool::thread_count() const {
  absl::MutexLock lock(&mutex_);
  return static_cast<int>(threads_.size());
}

}  // namespace upscaled::server
