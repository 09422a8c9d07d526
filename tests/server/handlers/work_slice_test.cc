#include "server/handlers/work_slice.h"

#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>

#include <gtest/gtest.h>

namespace upscaled::server {
namespace {

// The calling thread's, in nanoseconds; 0: the system tells none.
uint64_t Slice() {
  struct {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime_ns, deadline_ns, period_ns;
  } attributes = {};
  const auto error = syscall(SYS_sched_getattr, 0, &attributes, sizeof(attributes), 0);
  EXPECT_EQ(error, 0);
  EXPECT_EQ(attributes.policy, uint32_t{SCHED_OTHER});
  return attributes.runtime_ns;
}

void Compute(absl::Duration time) {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  const absl::Duration end = absl::DurationFromTimespec(now) + time;
  while (absl::DurationFromTimespec(now) < end) clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
}

TEST(WorkSliceTest, IsLongForAJobThatComputesForLong) {
  const uint64_t before = Slice();
  if (before == 0) GTEST_SKIP() << "this system has no slices of a thread's own";
  {
    WorkSlice slice;
    slice.GoOn();
    EXPECT_EQ(Slice(), before);
    Compute(absl::Milliseconds(30));
    EXPECT_EQ(Slice(), before);
    slice.GoOn();
    EXPECT_GT(Slice(), 5 * before);
    slice.GoOn();
  }
  EXPECT_EQ(Slice(), before);
  WorkSlice next;  // of the same thread, which has computed for long
  next.GoOn();
  EXPECT_EQ(Slice(), before);
}

}  // namespace
}  // namespace upscaled::server
