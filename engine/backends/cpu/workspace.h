// Floats for packed weights and scratch memory, on huge pages where the system gives them: a
// network's weights and rings span thousands of small pages, which the TLB cannot hold.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

namespace upscaled::cpu {

// Move-only; 64-byte aligned; contents are indeterminate. Throws std::bad_alloc when memory is out.
class HugeBuffer {
 public:
  HugeBuffer() = default;
  explicit HugeBuffer(size_t floats);

  float* data() { return data_.get(); }
  const float* data() const { return data_.get(); }
  size_t size() const { return size_; }
  size_t bytes() const { return size_ * sizeof(float); }

  // Makes room for `floats`; keeps the old storage when it suffices, else drops the contents.
  void Reserve(size_t floats);
  // Drops the contents and lets the system have the memory, should it be short of it, until the
  // buffer is written again. Whether there is a choice: not where it is small.
  bool Spare();

 private:
  struct Free {
    void operator()(float* p) const;
  };
  std::unique_ptr<float[], Free> data_;
  size_t size_ = 0;
};

// Buffers between one user and the next: fresh pages, which the system clears, may take a tenth of
// an image's time. Thread safe.
class SpareBuffers {
 public:
  // One of at least so many floats and not many more. Those that are spare go before a new one is
  // made. Throws std::bad_alloc when memory is out.
  HugeBuffer Take(size_t floats);
  // Keeps it if there is room.
  void Return(HugeBuffer buffer);

 private:
  static constexpr size_t kMaxBytes = size_t{256} << 20;

  std::mutex mutex_;
  std::vector<HugeBuffer> buffers_;  // guarded by mutex_
  size_t bytes_ = 0;                 // theirs
};

}  // namespace upscaled::cpu
