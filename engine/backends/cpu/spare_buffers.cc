#include "engine/backends/cpu/spare_buffers.h"

#include <algorithm>
#include <utility>
#include <vector>

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
  }
  return HugeBuffer(floats);
}

void SpareBuffers::Return(HugeBuffer buffer) {
  if (buffer.bytes() > kMaxBytes || !buffer.Spare()) return;
  std::vector<HugeBuffer> dropped;  // freed behind the lock: unmapping takes long
  const absl::MutexLock lock(&mutex_);
  while (buffer.bytes() > kMaxBytes - bytes_) {
    bytes_ -= buffers_.front().bytes();
    dropped.push_back(std::move(buffers_.front()));
    buffers_.pop_front();
  }
  bytes_ += buffer.bytes();
  buffers_.push_back(std::move(buffer));
}

}  // namespace upscaled::cpu
