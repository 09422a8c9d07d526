// Tells calls that their client has let a time pass.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/base/timer.h"

namespace upscaled::server {

// Thread safe. Looks a few times a second: setting and dropping a time, the habit of every call,
// wakes no thread.
class Watchdog {
 public:
  using Id = std::pair<absl::Time, uint64_t>;

  explicit Watchdog(Timer& timer);

  // `late` runs on the timer's thread, quickly and with no lock held, when `timeout` has passed,
  // and a little more, unless Drop came before. It must own its data, because it may run while Drop
  // does.
  Id Watch(absl::Duration timeout, std::function<void()> late) ABSL_LOCKS_EXCLUDED(mutex_);
  void Drop(const Id& id) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Look() ABSL_LOCKS_EXCLUDED(mutex_);

  absl::Mutex mutex_;
  uint64_t last_id_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<Id, std::function<void()>> watched_ ABSL_GUARDED_BY(mutex_);
  const Timer::Task task_;  // last: it uses what is above
};

}  // namespace upscaled::server
