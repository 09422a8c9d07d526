// Floats for packed weights and scratch memory, on huge pages where the system gives them: a
// network's weights and rings span thousands of small pages, which the TLB cannot hold.
#pragma once

#include <cstddef>
#include <memory>

namespace upscaled::cpu {

// Move-only; 64-byte aligned; contents are indeterminate. Throws std::bad_alloc when memory is out.
class HugeBuffer {
 public:
  HugeBuffer() = default;
  explicit HugeBuffer(size_t floats);
  // An empty one that Reserve fills: see Poison.
  static HugeBuffer Poisoned();

  // The memory that one of this size takes.
  static size_t BytesFor(size_t floats);

  float* data() { return data_.get(); }
  const float* data() const { return data_.get(); }
  size_t size() const { return size_; }
  size_t bytes() const { return size_ * sizeof(float); }

  // Makes room for `floats`; keeps the old storage when it suffices. Contents are indeterminate.
  void Reserve(size_t floats);
  // Fills it with NaN, or at every other call with small numbers, which pass where NaN is caught:
  // a result that depends on memory that was not written is wrong, and another each time.
  void Poison();
  // Drops the contents and lets the system have the memory, should it be short of it, until the
  // buffer is written again. Whether there is a choice: not where it is small.
  bool Spare();

 private:
  struct Free {
    void operator()(float* p) const;
  };
  std::unique_ptr<float[], Free> data_;
  size_t size_ = 0;
  bool poisons_ = false;          // at each Reserve
  bool poisoned_by_nan_ = false;  // the last time
};

}  // namespace upscaled::cpu
