#include "server/net/handshake_crew.h"

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <iterator>
#include <utility>

#include "engine/base/thread_name.h"

namespace upscaled::server {
namespace {

constexpr int kNice = 5;

// Linux has a nice value for each thread.
void LowerPriority() {
  const id_t self = static_cast<id_t>(gettid());
  setpriority(PRIO_PROCESS, self, getpriority(PRIO_PROCESS, self) + kNice);
}

}  // namespace

HandshakeCrew::HandshakeCrew(int threads) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Work(); });
}

HandshakeCrew::~HandshakeCrew() {
  {
    absl::MutexLock lock(&mutex_);
    stopped_ = true;
  }
  for (std::thread& thread : threads_) thread.join();
}

void HandshakeCrew::Job::Run(std::function<void()> work) {
  if (crew_ == nullptr) return work();
  number_ = crew_->Add(std::move(work));
}

void HandshakeCrew::Job::Withdraw() {
  if (const uint64_t number = std::exchange(number_, 0); number != 0) crew_->Remove(number);
}

uint64_t HandshakeCrew::Add(std::function<void()> work) {
  absl::MutexLock lock(&mutex_);
  waiting_.emplace(++last_number_, std::move(work));
  return last_number_;
}

void HandshakeCrew::Remove(uint64_t number) {
  absl::MutexLock lock(&mutex_);
  waiting_.erase(number);
  const auto is_over = [this, number]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return std::ranges::find(running_, number) == running_.end();
  };
  mutex_.Await(absl::Condition(&is_over));
}

HandshakeCrew::Steps::node_type HandshakeCrew::Take() {
  const auto has_work = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return stopped_ || !waiting_.empty();
  };
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(&has_work));
  if (stopped_) return {};
  Steps::node_type newest = waiting_.extract(std::prev(waiting_.end()));
  running_.push_back(newest.key());
  return newest;
}

void HandshakeCrew::Done(uint64_t number) {
  absl::MutexLock lock(&mutex_);
  std::erase(running_, number);
}

void HandshakeCrew::Work() {
  NameThread("handshake");
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  LowerPriority();
  while (Steps::node_type step = Take()) {
    try {
      step.mapped()();
    } catch (const std::exception&) {  // no memory: the connection ends in time
    }
    step.mapped() = nullptr;
    Done(step.key());
  }
}

}  // namespace upscaled::server
