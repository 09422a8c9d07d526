// The payers of one computation for several callers.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/base/payer.h"

namespace upscaled::server {

// One payer for each waiter, the longest waiting one first. Thread safe.
class Payers {
 public:
  using Listener = std::function<void()>;

  // Waiters are known by number. The numbers count up.
  void Add(int64_t waiter, Payer payer) ABSL_LOCKS_EXCLUDED(mutex_) {
    Change([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      payers_.insert_or_assign(waiter, std::move(payer));
    });
  }
  void Remove(int64_t waiter) ABSL_LOCKS_EXCLUDED(mutex_) {
    Change([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { payers_.erase(waiter); });
  }

  std::vector<Payer> list() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    std::vector<Payer> payers;
    for (const auto& [waiter, payer] : payers_) payers.push_back(payer);
    return payers;
  }

  // Calls `listener`, in place of an earlier one, after each change from now on. Calls it with no
  // lock held, on any thread, and a last time perhaps after the next Listen.
  void Listen(Listener listener) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    listener_ = std::move(listener);
  }

 private:
  template <typename Edit>
  void Change(Edit edit) ABSL_LOCKS_EXCLUDED(mutex_) {
    Listener listener;
    {
      absl::MutexLock lock(&mutex_);
      edit();
      listener = listener_;
    }
    if (listener) listener();
  }

  mutable absl::Mutex mutex_;
  std::map<int64_t, Payer> payers_ ABSL_GUARDED_BY(mutex_);
  Listener listener_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace upscaled::server
