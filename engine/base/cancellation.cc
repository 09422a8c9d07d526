#include "engine/base/cancellation.h"

#include <utility>

namespace upscaled {

Cancellation::Registration::Registration(Registration&& other) noexcept
    : owner_(std::exchange(other.owner_, nullptr)), id_(other.id_) {}

Cancellation::Registration& Cancellation::Registration::operator=(Registration&& other) noexcept {
  if (this != &other) {
    Reset();
    owner_ = std::exchange(other.owner_, nullptr);
    id_ = other.id_;
  }
  return *this;
}

void Cancellation::Registration::Reset() {
  if (Cancellation* owner = std::exchange(owner_, nullptr)) owner->Unregister(id_);
}

void Cancellation::Cancel(absl::Status reason) {
  {
    absl::MutexLock lock(&mutex_);
    if (!reason_.ok()) return;
    reason_ = std::move(reason);
    canceller_ = std::this_thread::get_id();
  }
  while (true) {
    std::function<void()> callback;
    {
      absl::MutexLock lock(&mutex_);
      running_id_ = 0;
      if (callbacks_.empty()) return;
      auto first = callbacks_.extract(callbacks_.begin());
      running_id_ = first.key();
      callback = std::move(first.mapped());
    }
    callback();
  }
}

absl::Status Cancellation::status() const {
  absl::MutexLock lock(&mutex_);
  return reason_;
}

Cancellation::Registration Cancellation::OnCancel(std::function<void()> callback) {
  {
    absl::MutexLock lock(&mutex_);
    if (reason_.ok()) {
      const int64_t id = next_id_++;
      callbacks_.emplace(id, std::move(callback));
      return Registration(this, id);
    }
  }
  callback();
  return Registration();
}

void Cancellation::Unregister(int64_t id) {
  absl::MutexLock lock(&mutex_);
  callbacks_.erase(id);
  if (running_id_ != id || canceller_ == std::this_thread::get_id()) return;
  const auto finished = [this, id]()
                            ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return running_id_ != id; };
  mutex_.Await(absl::Condition(&finished));
}

}  // namespace upscaled
