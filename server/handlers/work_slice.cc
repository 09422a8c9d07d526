#include "server/handlers/work_slice.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>

namespace upscaled::server {
namespace {

constexpr absl::Duration kLongWork = absl::Milliseconds(20);
constexpr absl::Duration kLongSlice = absl::Milliseconds(50);

absl::Duration ThreadCpuTime() {
  timespec time{};
  (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return absl::DurationFromTimespec(time);
}

// sched_setattr(2). glibc 2.36 does not declare it.
struct SchedulingAttributes {
  uint32_t size = sizeof(SchedulingAttributes);
  uint32_t policy = SCHED_OTHER;
  uint64_t flags = 0;
  int32_t nice = 0;
  uint32_t priority = 0;
  uint64_t runtime_ns = 0;  // the slice; 0: the system's
  uint64_t deadline_ns = 0;
  uint64_t period_ns = 0;
};

// For the calling thread. If the system refuses, nothing changes.
void SetSlice(absl::Duration slice) {
  SchedulingAttributes attributes;
  attributes.nice = getpriority(PRIO_PROCESS, 0);
  attributes.runtime_ns = static_cast<uint64_t>(absl::ToInt64Nanoseconds(slice));
  (void)syscall(SYS_sched_setattr, 0, &attributes, 0);
}

}  // namespace

WorkSlice::WorkSlice() : begin_(ThreadCpuTime()) {}

WorkSlice::~WorkSlice() {
  if (is_long_) SetSlice(absl::ZeroDuration());
}

void WorkSlice::GoOn() {
  if (is_long_ || ThreadCpuTime() - begin_ < kLongWork) return;
  is_long_ = true;
  SetSlice(kLongSlice);
}

}  // namespace upscaled::server
