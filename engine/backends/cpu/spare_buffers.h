// Memory between one user and the next: fresh pages, which the system clears, may take a tenth of
// an image's time.
#pragma once

#include <cstddef>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "engine/backends/cpu/workspace.h"

namespace upscaled::cpu {

// Thread safe.
class SpareBuffers {
 public:
  // One of at least so many floats and not many more. Where none fits, those that are spare go
  // before a new one is made. Throws std::bad_alloc when memory is out.
  HugeBuffer Take(size_t floats);
  // Keeps it if there is room; its contents are lost.
  void Return(HugeBuffer buffer);

 private:
  static constexpr size_t kMaxBytes = size_t{256} << 20;

  absl::Mutex mutex_;
  std::vector<HugeBuffer> buffers_ ABSL_GUARDED_BY(mutex_);
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // theirs
};

}  // namespace upscaled::cpu
