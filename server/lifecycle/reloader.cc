#include "server/lifecycle/reloader.h"

#include <utility>

namespace upscaled::server {

Reloader::Reloader(std::function<void()> reload)
    : reload_(std::move(reload)), thread_([this] { Run(); }) {}

Reloader::~Reloader() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  thread_.join();
}

void Reloader::Request() {
  absl::MutexLock lock(&mutex_);
  requested_ = true;
}

bool Reloader::busy() const {
  absl::MutexLock lock(&mutex_);
  return running_;
}

void Reloader::Run() {
  while (true) {
    {
      absl::MutexLock lock(&mutex_);
      running_ = false;
      const auto news = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return stopping_ || requested_;
      };
      mutex_.Await(absl::Condition(&news));
      if (stopping_) return;
      requested_ = false;
      running_ = true;
    }
    reload_();
  }
}

}  // namespace upscaled::server
