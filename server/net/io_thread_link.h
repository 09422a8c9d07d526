// The way to a server's thread for objects that may outlive it.
#pragma once

#include <functional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/net/io_thread.h"

namespace upscaled::server {

// Thread safe.
class IoThreadLink {
 public:
  IoThreadLink() = default;  // as after Cut
  explicit IoThreadLink(IoThread& thread) : thread_(&thread) {}

  // Runs `work` on the thread, soon, or drops it after Cut.
  void Post(std::function<void()> work) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (thread_ != nullptr) thread_->Post(std::move(work));
  }
  void Cut() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    thread_ = nullptr;
  }

 private:
  absl::Mutex mutex_;
  IoThread* thread_ ABSL_GUARDED_BY(mutex_) = nullptr;
};

}  // namespace upscaled::server
