#include "engine/backends/cpu/spare_buffers.h"

#include <algorithm>
#include <utility>

namespace upscaled::cpu {

HugeBuffer SpareBuffers::Take(size_t floats) {
  {
    const absl::MutexLock lock(&mutex_);
    const auto fits = [&](const HugeBuffer& buffer) {
      return buffer.size() >= floats && buffer.size() / 2 <= floats;
    };
    const auto found = std::ranges::find_if(buffers_, fits);
    if (found != buffers_.end()) {
      HugeBuffer buffer = std::move(*found);
      buffers_.erase(found);
      bytes_ -= buffer.bytes();
      return buffer;
    }
    buffers_.clear();
    bytes_ = 0;
  }
  return HugeBuffer(floats);
}

void SpareBuffers::Return(HugeBuffer buffer) {
  if (!buffer.Spare()) return;
  const absl::MutexLock lock(&mutex_);
  if (buffer.bytes() > kMaxBytes - bytes_) return;
  bytes_ += buffer.bytes();
  buffers_.push_back(std::move(buffer));
}

}  // namespace upscaled::cpu
