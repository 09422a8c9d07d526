// How many log lines of a kind are written a second.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/base/clock.h"

namespace upscaled::server {

// At first `burst` lines, and then as many as `per_second` gives.
struct LineRate {
  double burst = 0;
  double per_second = 0;
};

// Thread safe. Remembers a bounded number of kinds; further ones share a bucket.
class LineLimit {
 public:
  struct Omission {
    std::string kind;
    int64_t lines = 0;
  };
  static constexpr size_t kMaxKinds = 128;

  // `clock` must outlive it.
  explicit LineLimit(const Clock& clock) : clock_(clock) {}

  // Whether one more line of `kind` may be written now.
  bool Admit(std::string_view kind, const LineRate& rate) ABSL_LOCKS_EXCLUDED(mutex_);
  // The lines left out since the last such question, by kind.
  std::vector<Omission> TakeOmissions() ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether TakeOmissions has any to tell.
  bool has_omissions() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Lines left out since the start.
  int64_t total() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Bucket {
    double lines = 0;  // that may be written at once
    absl::Time filled;
    int64_t omitted = 0;
  };

  const Clock& clock_;
  mutable absl::Mutex mutex_;
  std::map<std::string, Bucket, std::less<>> buckets_ ABSL_GUARDED_BY(mutex_);
  int64_t total_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace upscaled::server
