// Work for the disk, done one after the other by a thread that is there only while there is work.
#pragma once

#include <deque>
#include <functional>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/base/timer.h"

namespace upscaled::server {

// Thread safe. Runs its work on a helper of a timer. The work is kept while the machine has no
// thread to spare. If work may be the last owner of the queue, close it first.
class DiskQueue {
 public:
  // `timer` must outlive it, or its Close.
  explicit DiskQueue(Timer& timer);

  // Runs `work` soon, or drops it after Close.
  void Post(std::function<void()> work) ABSL_LOCKS_EXCLUDED(mutex_);
  // Drops all work that has not begun. Waits for the work that runs: do not call this from it.
  void Close() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void RunAll() ABSL_LOCKS_EXCLUDED(mutex_);
  // null: none is left.
  std::function<void()> Take() ABSL_LOCKS_EXCLUDED(mutex_);

  absl::Mutex mutex_;
  std::deque<std::function<void()>> work_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Timer::Task> task_ ABSL_GUARDED_BY(mutex_);  // null: closed
};

}  // namespace upscaled::server
