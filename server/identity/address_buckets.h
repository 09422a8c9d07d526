// How often something may happen for an address.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/hash/hash.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/clock.h"
#include "server/net/token_bucket.h"

namespace upscaled::server {

// By the hash of the address, so no number of addresses takes more memory; addresses in one bucket
// share its rate. The hash is seeded: no caller can choose addresses in another's bucket. Thread
// safe.
class AddressBuckets {
 public:
  // `clock` must outlive it.
  AddressBuckets(Rate each, const Clock& clock)
      : clock_(clock), buckets_(kBuckets, TokenBucket(each, clock.Now())) {}

  // Takes a token; false if the bucket is empty.
  bool Take(std::string_view address) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return BucketOf(address).Take(clock_.Now());
  }
  // Until there is one; zero: there is.
  absl::Duration TimeToNext(std::string_view address) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return BucketOf(address).TimeToToken(clock_.Now());
  }
  // Gives back a Take.
  void Return(std::string_view address) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    BucketOf(address).Earn(1);
  }

 private:
  static constexpr size_t kBuckets = 4096;

  TokenBucket& BucketOf(std::string_view address) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return buckets_[absl::HashOf(seed_, absl::string_view(address.data(), address.size())) %
                    kBuckets];
  }

  const Clock& clock_;
  const uint64_t seed_ = std::random_device()();
  absl::Mutex mutex_;
  std::vector<TokenBucket> buckets_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace upscaled::server
