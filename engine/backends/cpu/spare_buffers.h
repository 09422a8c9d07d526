// Memory between one user and the next: fresh pages, which the system clears, may take a tenth of
// an image's time. All executables of a backend share one, so that the limit is the backend's.
#pragma once

#include <cstddef>
#include <deque>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "engine/backends/cpu/workspace.h"

namespace upscaled::cpu {

// Thread safe.
class SpareBuffers {
 public:
  // One of at least so many floats and not many more; a new one where none fits. Throws
  // std::bad_alloc when memory is out.
  HugeBuffer Take(size_t floats);
  // Keeps it unless it is small or over the limit, instead of the oldest where there is no room for
  // all; its contents are lost.
  void Return(HugeBuffer buffer);

 private:
  static constexpr size_t kMaxBytes = size_t{256} << 20;

  absl::Mutex mutex_;
  std::deque<HugeBuffer> buffers_ ABSL_GUARDED_BY(mutex_);  // the oldest first
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;                // theirs
};

}  // namespace upscaled::cpu
