// Owning, uninitialised, cache-line aligned storage for scratch memory and packed weights.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <type_traits>

namespace upscaled {

// Move-only. Contents are indeterminate until written. Throws std::bad_alloc when memory is out.
template <typename T>
class AlignedBuffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  static constexpr size_t kAlignmentBytes = 64;

  AlignedBuffer() = default;
  explicit AlignedBuffer(size_t count) : data_(Allocate(count)), size_(count) {}

  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  size_t size() const { return size_; }
  size_t bytes() const { return size_ * sizeof(T); }
  T& operator[](size_t i) { return data_.get()[i]; }
  const T& operator[](size_t i) const { return data_.get()[i]; }

  // Makes room for `count` elements; keeps the old storage when it suffices, else drops the
  // contents.
  void Reserve(size_t count) {
    if (count > size_) *this = AlignedBuffer(count);
  }

 private:
  struct Free {
    void operator()(T* p) const { std::free(p); }
  };
  static T* Allocate(size_t count) {
    if (count == 0) return nullptr;
    const size_t bytes =
        (count * sizeof(T) + kAlignmentBytes - 1) / kAlignmentBytes * kAlignmentBytes;
    void* p = std::aligned_alloc(kAlignmentBytes, bytes);
    if (p == nullptr) throw std::bad_alloc();
    return static_cast<T*>(p);
  }

  std::unique_ptr<T[], Free> data_;
  size_t size_ = 0;
};

}  // namespace upscaled
