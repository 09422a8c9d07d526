#include "engine/base/cpu_info.h"

#include <sched.h>

#include <thread>
#include <vector>

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

TEST(CoreCacheBytesTest, IsThatOfACore) {
  EXPECT_GE(CoreCacheBytes(), size_t{64} << 10);
  EXPECT_LE(CoreCacheBytes(), size_t{256} << 20);
}

TEST(CpuModelNameTest, IsOneLineThatStays) {
  const std::string name = CpuModelName();
  EXPECT_GT(name.size(), 5u);
  EXPECT_EQ(name.find_first_of("\n\t"), std::string::npos) << name;
  EXPECT_EQ(name, CpuModelName());
}

std::vector<int> OwnCpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  EXPECT_EQ(sched_getaffinity(0, sizeof(set), &set), 0);
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

// The CPUs of a thread that was bound as number `index` of `count`.
std::vector<int> CpusWhenBound(int index, int count) {
  std::vector<int> cpus;
  std::thread([&] {
    BindPoolThread(index, count);
    cpus = OwnCpus();
  }).join();
  return cpus;
}

TEST(BindPoolThreadTest, EachOfAFullPoolGetsItsCpu) {
  const std::vector<int> all = OwnCpus();
  const int count = static_cast<int>(all.size());
  if (AvailableCpuCount() < count) GTEST_SKIP() << "a quota leaves less than the affinity mask";
  for (int i = 0; i < count; ++i) EXPECT_EQ(CpusWhenBound(i, count), std::vector<int>{all[i]});
}

TEST(BindPoolThreadTest, OtherPoolsAreLeftToTheScheduler) {
  const std::vector<int> all = OwnCpus();
  const int count = static_cast<int>(all.size());
  EXPECT_EQ(CpusWhenBound(0, count + 1), all);
  EXPECT_EQ(CpusWhenBound(count, count + 1), all);
  if (count > 1) {
    EXPECT_EQ(CpusWhenBound(0, count - 1), all);
  }
}

}  // namespace
}  // namespace upscaled
