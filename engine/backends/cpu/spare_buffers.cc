#include "engine/backends/cpu/spare_buffers.h"

#include <algorithm>
#include <utility>

namespace upscaled::cpu {

HugeBuffer SpareBuffers::Take(size_t floats) {
  HugeBuffer buffer = TakeSpare(floats);
  if (buffer.size() == 0) buffer = HugeBuffer(floats);
  if (poisons_) buffer.Poison();
  std::deque<HugeBuffer> dropped;
  const absl::MutexLock lock(&mutex_);
  used_bytes_ += buffer.bytes();
  most_used_bytes_ = std::max(most_used_bytes_, used_bytes_);
  dropped = DropBeyondLimit();
  return buffer;
}

HugeBuffer SpareBuffers::TakeSpare(size_t floats) {
  const absl::MutexLock lock(&mutex_);
  const auto fits = [&](const HugeBuffer& buffer) {
    return buffer.size() >= floats && buffer.size() <= floats + floats / 8;
  };
  const auto found = std::ranges::find_if(buffers_, fits);
  if (found == buffers_.end()) return {};
  HugeBuffer buffer = std::move(*found);
  buffers_.erase(found);
  bytes_ -= buffer.bytes();
  return buffer;
}

void SpareBuffers::Return(HugeBuffer buffer) {
  const bool spared = buffer.Spare();
  std::deque<HugeBuffer> dropped;
  const absl::MutexLock lock(&mutex_);
  used_bytes_ -= buffer.bytes();
  if (!spared) return;
  bytes_ += buffer.bytes();
  buffers_.push_back(std::move(buffer));
  dropped = DropBeyondLimit();
}

std::deque<HugeBuffer> SpareBuffers::DropBeyondLimit() {
  std::deque<HugeBuffer> dropped;
  while (!buffers_.empty() && used_bytes_ + bytes_ > std::max(kFreeBytes, most_used_bytes_)) {
    bytes_ -= buffers_.front().bytes();
    dropped.push_back(std::move(buffers_.front()));
    buffers_.pop_front();
  }
  return dropped;
}

void SpareBuffers::Clear() {
  std::deque<HugeBuffer> dropped;
  const absl::MutexLock lock(&mutex_);
  dropped.swap(buffers_);
  bytes_ = 0;
  most_used_bytes_ = used_bytes_;
}

}  // namespace upscaled::cpu
