// Remembers what takes a walk through an image's rows to find out, by the image's size.
#pragma once

#include <cstddef>
#include <map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/geometry.h"

namespace upscaled::cpu {

// Thread safe.
template <typename Value>
class KnownBySize {
 public:
  // Returns `find_out()`, or what it returned for an image of this size before.
  template <typename FindOut>
  Value Of(Size image, FindOut find_out) const ABSL_LOCKS_EXCLUDED(mutex_) {
    constexpr size_t kMaxKnown = 1024;
    const std::pair size(image.width, image.height);
    {
      const absl::MutexLock lock(&mutex_);
      if (const auto known = values_.find(size); known != values_.end()) return known->second;
    }
    const Value value = find_out();
    const absl::MutexLock lock(&mutex_);
    if (values_.size() == kMaxKnown) values_.clear();
    values_.emplace(size, value);
    return value;
  }

 private:
  mutable absl::Mutex mutex_;
  mutable std::map<std::pair<int, int>, Value> values_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace upscaled::cpu
