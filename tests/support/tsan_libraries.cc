// Shows ThreadSanitizer the locks of Abseil and the queues of gRPC.
//
// Debian's libraries are not instrumented: ThreadSanitizer sees no order between two threads with
// one absl::Mutex after the other, or between the start of a gRPC operation and the take of its tag
// from the queue. The executable's definitions below take the place of the shared libraries', for
// all callers, and add the reports of instrumented ones.
#include <dlfcn.h>
#include <grpc/grpc.h>
#include <sanitizer/tsan_interface.h>

#include <cstdio>
#include <cstdlib>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"

extern "C" {
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
}

namespace {

void* Find(const char* symbol) {
  void* const found = dlsym(RTLD_NEXT, symbol);
  if (found == nullptr) {
    std::fprintf(stderr, "tsan_libraries.cc: no library has %s\n", symbol);
    std::abort();
  }
  return found;
}

// For conditions. The unlocking thread evaluates them, at a moment of the lock's but behind our
// release of it.
struct IgnoreReads {
  IgnoreReads() { AnnotateIgnoreReadsBegin(__FILE__, __LINE__); }
  ~IgnoreReads() { AnnotateIgnoreReadsEnd(__FILE__, __LINE__); }
};

}  // namespace

// Calls the library's own function of this name.
#define NEXT(symbol, Result, ...)                  \
  (*reinterpret_cast<Result (*)(__VA_ARGS__)>([] { \
    static void* const next = Find(symbol);        \
    return next;                                   \
  }()))

namespace absl {
ABSL_NAMESPACE_BEGIN

void Mutex::Lock() {
  NEXT("_ZN4absl7debian35Mutex4LockEv", void, Mutex*)(this);
  __tsan_acquire(this);
}

bool Mutex::TryLock() {
  const bool locked = NEXT("_ZN4absl7debian35Mutex7TryLockEv", bool, Mutex*)(this);
  if (locked) __tsan_acquire(this);
  return locked;
}

void Mutex::Unlock() {
  __tsan_release(this);
  IgnoreReads ignore;
  NEXT("_ZN4absl7debian35Mutex6UnlockEv", void, Mutex*)(this);
}

void Mutex::ReaderLock() {
  NEXT("_ZN4absl7debian35Mutex10ReaderLockEv", void, Mutex*)(this);
  __tsan_acquire(this);
}

void Mutex::ReaderUnlock() {
  __tsan_release(this);
  IgnoreReads ignore;
  NEXT("_ZN4absl7debian35Mutex12ReaderUnlockEv", void, Mutex*)(this);
}

void Mutex::Await(const Condition& condition) {
  __tsan_release(this);
  {
    IgnoreReads ignore;
    NEXT("_ZN4absl7debian35Mutex5AwaitERKNS0_9ConditionE", void, Mutex*, const Condition&)
    (this, condition);
  }
  __tsan_acquire(this);
}

bool Mutex::AwaitWithTimeout(const Condition& condition, Duration timeout) {
  __tsan_release(this);
  bool fulfilled = false;
  {
    IgnoreReads ignore;
    fulfilled = NEXT("_ZN4absl7debian35Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE",
                     bool, Mutex*, const Condition&, Duration)(this, condition, timeout);
  }
  __tsan_acquire(this);
  return fulfilled;
}

bool Mutex::AwaitWithDeadline(const Condition& condition, Time deadline) {
  __tsan_release(this);
  bool fulfilled = false;
  {
    IgnoreReads ignore;
    fulfilled = NEXT("_ZN4absl7debian35Mutex17AwaitWithDeadlineERKNS0_9ConditionENS0_4TimeE", bool,
                     Mutex*, const Condition&, Time)(this, condition, deadline);
  }
  __tsan_acquire(this);
  return fulfilled;
}

void Mutex::LockWhen(const Condition& condition) {
  {
    IgnoreReads ignore;
    NEXT("_ZN4absl7debian35Mutex8LockWhenERKNS0_9ConditionE", void, Mutex*, const Condition&)
    (this, condition);
  }
  __tsan_acquire(this);
}

void CondVar::Wait(Mutex* mutex) {
  __tsan_release(mutex);
  NEXT("_ZN4absl7debian37CondVar4WaitEPNS0_5MutexE", void, CondVar*, Mutex*)(this, mutex);
  __tsan_acquire(mutex);
}

bool CondVar::WaitWithTimeout(Mutex* mutex, Duration timeout) {
  __tsan_release(mutex);
  const bool expired = NEXT("_ZN4absl7debian37CondVar15WaitWithTimeoutEPNS0_5MutexENS0_8DurationE",
                            bool, CondVar*, Mutex*, Duration)(this, mutex, timeout);
  __tsan_acquire(mutex);
  return expired;
}

bool CondVar::WaitWithDeadline(Mutex* mutex, Time deadline) {
  __tsan_release(mutex);
  const bool expired = NEXT("_ZN4absl7debian37CondVar16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE",
                            bool, CondVar*, Mutex*, Time)(this, mutex, deadline);
  __tsan_acquire(mutex);
  return expired;
}

void Notification::Notify() {
  __tsan_release(this);
  NEXT("_ZN4absl7debian312Notification6NotifyEv", void, Notification*)(this);
}

void Notification::WaitForNotification() const {
  NEXT("_ZNK4absl7debian312Notification19WaitForNotificationEv", void, const Notification*)(this);
  __tsan_acquire(const_cast<Notification*>(this));
}

ABSL_NAMESPACE_END
}  // namespace absl

extern "C" {

grpc_call_error grpc_call_start_batch(grpc_call* call, const grpc_op* ops, size_t count, void* tag,
                                      void* reserved) {
  __tsan_release(tag);
  return NEXT("grpc_call_start_batch", grpc_call_error, grpc_call*, const grpc_op*, size_t, void*,
              void*)(call, ops, count, tag, reserved);
}

grpc_call_error grpc_server_request_registered_call(
    grpc_server* server, void* method, grpc_call** call, gpr_timespec* deadline,
    grpc_metadata_array* metadata, grpc_byte_buffer** payload, grpc_completion_queue* bound_queue,
    grpc_completion_queue* notification_queue, void* tag) {
  __tsan_release(tag);
  return NEXT("grpc_server_request_registered_call", grpc_call_error, grpc_server*, void*,
              grpc_call**, gpr_timespec*, grpc_metadata_array*, grpc_byte_buffer**,
              grpc_completion_queue*, grpc_completion_queue*, void*)(
      server, method, call, deadline, metadata, payload, bound_queue, notification_queue, tag);
}

grpc_event grpc_completion_queue_next(grpc_completion_queue* queue, gpr_timespec deadline,
                                      void* reserved) {
  const grpc_event event = NEXT("grpc_completion_queue_next", grpc_event, grpc_completion_queue*,
                                gpr_timespec, void*)(queue, deadline, reserved);
  if (event.type == GRPC_OP_COMPLETE) __tsan_acquire(event.tag);
  return event;
}

}  // extern "C"
