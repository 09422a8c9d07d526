// Reloading on a thread of its own, one time after the other.
#pragma once

#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace upscaled::server {

// Thread safe.
class Reloader {
 public:
  // `reload` must outlive it and may take long. Throws std::system_error when there is no thread.
  explicit Reloader(std::function<void()> reload);
  // Waits for a reload that is under way.
  ~Reloader();

  // Soon; once for all requests that come before it begins.
  void Request() ABSL_LOCKS_EXCLUDED(mutex_);
  bool busy() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Run() ABSL_LOCKS_EXCLUDED(mutex_);

  const std::function<void()> reload_;
  mutable absl::Mutex mutex_;
  bool requested_ ABSL_GUARDED_BY(mutex_) = false;
  bool running_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses what is above
};

}  // namespace upscaled::server
