#include "tests/engine/backends/cuda/fiber.h"

#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

namespace upscaled::test {
namespace {

thread_local Fiber* t_entering = nullptr;

// ThreadSanitizer follows calls and returns, so it must be told their stack.
#ifdef __SANITIZE_THREAD__
void* CreateTsanFiber() { return __tsan_create_fiber(0); }
void DestroyTsanFiber(void* fiber) { __tsan_destroy_fiber(fiber); }
void* CurrentTsanFiber() { return __tsan_get_current_fiber(); }
void SwitchTsanFiber(void* fiber) { __tsan_switch_to_fiber(fiber, 0); }
#else
void* CreateTsanFiber() { return nullptr; }
void DestroyTsanFiber(void*) {}
void* CurrentTsanFiber() { return nullptr; }
void SwitchTsanFiber(void*) {}
#endif

}  // namespace

Fiber::Fiber() : stack_(new char[kStackBytes]), tsan_own_(CreateTsanFiber()) {
  getcontext(&own_);
  own_.uc_stack.ss_sp = stack_.get();
  own_.uc_stack.ss_size = kStackBytes;
  own_.uc_link = nullptr;
  makecontext(&own_, &Fiber::Enter, 0);
}

Fiber::~Fiber() { DestroyTsanFiber(tsan_own_); }

void Fiber::Resume() {
  t_entering = this;
  tsan_resumer_ = CurrentTsanFiber();
  SwitchTsanFiber(tsan_own_);
  swapcontext(&resumer_, &own_);
}

void Fiber::Suspend() {
  SwitchTsanFiber(tsan_resumer_);
  swapcontext(&own_, &resumer_);
}

void Fiber::Enter() {
  Fiber* const fiber = t_entering;
  for (;;) {
    fiber->work_();
    fiber->Suspend();
  }
}

}  // namespace upscaled::test
