// A function with a stack of its own, which can be left and gone on with.
#pragma once

#include <ucontext.h>

#include <cstddef>
#include <functional>
#include <memory>

namespace upscaled::test {

class Fiber {
 public:
  explicit Fiber(std::function<void()> work);
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;
  // Where `work` has not returned, what lies on its stack is not destroyed.
  ~Fiber();

  // Runs `work` until it suspends itself or returns; not again after that.
  void Resume();
  // Called by `work`: back to who resumed it.
  void Suspend();

 private:
  static constexpr size_t kStackBytes = size_t{256} << 10;

  static void Enter();

  const std::function<void()> work_;
  const std::unique_ptr<char[]> stack_;
  ucontext_t own_, resumer_;
  void* tsan_own_ = nullptr;  // what ThreadSanitizer knows of the two stacks
  void* tsan_resumer_ = nullptr;
};

}  // namespace upscaled::test
