// Memory between one user and the next: fresh pages, which the system clears, may take a tenth of
// an image's time. All executables of a backend share one, so that the limit is the backend's.
#pragma once

#include <cstddef>
#include <deque>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "engine/backends/cpu/workspace.h"

namespace upscaled::cpu {

// Thread safe. Holds at most what its users have had at one time, in use and spare together, which
// was in their reservations then; or kFreeBytes.
class SpareBuffers {
 public:
  static constexpr size_t kFreeBytes = size_t{256} << 20;

  // `poisons`: HugeBuffer::Poison before each use, for tests.
  explicit SpareBuffers(bool poisons = false) : poisons_(poisons) {}

  bool poisons() const { return poisons_; }

  // The most memory that Take gives for this many floats: a spare one is up to an eighth larger.
  static size_t MostBytes(size_t floats) { return HugeBuffer::BytesFor(floats + floats / 8); }

  // One of `floats` or more, and at most of MostBytes; a new one where none fits. Throws
  // std::bad_alloc when memory is out.
  HugeBuffer Take(size_t floats);
  // Keeps a buffer of Take unless it is small. If there is no room for all, drops the oldest. Its
  // contents are lost.
  void Return(HugeBuffer buffer);
  // Frees the spare ones; users' later needs count from here on.
  void Clear();

 private:
  // Empty where none fits.
  HugeBuffer TakeSpare(size_t floats);
  // Removes the oldest, which the caller frees behind the lock: unmapping takes long.
  std::deque<HugeBuffer> DropBeyondLimit() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const bool poisons_;
  absl::Mutex mutex_;
  std::deque<HugeBuffer> buffers_ ABSL_GUARDED_BY(mutex_);  // the oldest first
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;                // theirs
  size_t used_bytes_ ABSL_GUARDED_BY(mutex_) = 0;           // of those that are taken
  size_t most_used_bytes_ ABSL_GUARDED_BY(mutex_) = 0;      // at one time
};

}  // namespace upscaled::cpu
