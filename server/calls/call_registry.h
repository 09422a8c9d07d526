// Knows every call there is: a shutdown can cancel them and wait for their end.
#pragma once

#include <memory>
#include <unordered_set>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/cancellation.h"

namespace upscaled::server {

// Thread safe. Must outlive its entries.
class CallRegistry {
 public:
  // A call's place in the registry, for as long as the call lives.
  class Entry {
   public:
    explicit Entry(CallRegistry& registry)
        : registry_(registry), cancellation_(std::make_shared<Cancellation>()) {
      registry_.Add(cancellation_);
    }
    ~Entry() { registry_.Remove(cancellation_); }
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;

    Cancellation& cancellation() const { return *cancellation_; }

   private:
    CallRegistry& registry_;
    const std::shared_ptr<Cancellation> cancellation_;
  };

  void CancelAll(const absl::Status& reason) ABSL_LOCKS_EXCLUDED(mutex_) {
    std::unordered_set<std::shared_ptr<Cancellation>> calls;
    {
      absl::MutexLock lock(&mutex_);
      calls = calls_;
    }
    for (const auto& cancellation : calls) cancellation->Cancel(reason);
  }

  void AwaitEmpty() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    const auto empty = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return calls_.empty(); };
    mutex_.Await(absl::Condition(&empty));
  }

 private:
  void Add(std::shared_ptr<Cancellation> cancellation) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    calls_.insert(std::move(cancellation));
  }
  void Remove(const std::shared_ptr<Cancellation>& cancellation) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    calls_.erase(cancellation);
  }

  mutable absl::Mutex mutex_;
  std::unordered_set<std::shared_ptr<Cancellation>> calls_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace upscaled::server
