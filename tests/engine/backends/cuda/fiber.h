// A stack of its own for functions that can be left and gone on with.
#pragma once

#include <ucontext.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>

namespace upscaled::test {

class Fiber {
 public:
  Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;
  // Where the work has not returned, what lies on its stack is not destroyed.
  ~Fiber();

  // What Resume runs from now on; the work before must have returned.
  void Start(std::function<void()> work) { work_ = std::move(work); }
  // Runs the work until it suspends itself or returns; not again after that.
  void Resume();
  // Called by the work: back to who resumed it.
  void Suspend();

 private:
  static constexpr size_t kStackBytes = size_t{256} << 10;

  static void Enter();

  std::function<void()> work_;
  const std::unique_ptr<char[]> stack_;
  ucontext_t own_, resumer_;
  void* tsan_own_ = nullptr;  // what ThreadSanitizer knows of the two stacks
  void* tsan_resumer_ = nullptr;
};

}  // namespace upscaled::test
