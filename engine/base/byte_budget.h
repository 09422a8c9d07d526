// A number of bytes, shared by several takers.
#pragma once

#include <atomic>
#include <cstddef>

namespace upscaled {

// Thread safe.
class ByteBudget {
 public:
  explicit ByteBudget(size_t bytes) : left_(bytes) {}

  // All or nothing.
  bool Take(size_t bytes) {
    size_t left = left_;
    do {
      if (bytes > left) return false;
    } while (!left_.compare_exchange_weak(left, left - bytes));
    return true;
  }
  void Return(size_t bytes) { left_ += bytes; }

 private:
  std::atomic<size_t> left_;
};

}  // namespace upscaled
