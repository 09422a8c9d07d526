#include "engine/base/cpu_info.h"

#include <sched.h>

#include <thread>

#include "gtest/gtest.h"

namespace upscaled {
namespace {

TEST(AvailableCpuCountTest, StaysWithinTheMachine) {
  EXPECT_GE(AvailableCpuCount(), 1);
  EXPECT_LE(AvailableCpuCount(), static_cast<int>(std::thread::hardware_concurrency()));
}

TEST(AvailableCpuCountTest, FollowsTheAffinityMask) {
  int count = 0;
  std::thread([&count] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
    count = AvailableCpuCount();
  }).join();
  EXPECT_EQ(count, 1);
}

}  // namespace
}  // namespace upscaled
