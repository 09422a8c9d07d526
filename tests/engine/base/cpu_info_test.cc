#include "engine/base/cpu_info.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
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

// As the kernel of a machine of `possible` CPUs fills masks: it refuses smaller ones.
std::vector<int> CpusOf(int possible, const std::vector<int>& allowed) {
  return ReadCpuMask([&](size_t bytes, cpu_set_t* mask) {
    if (bytes * 8 < static_cast<size_t>(possible)) {
      errno = EINVAL;
      return false;
    }
    for (const int cpu : allowed) CPU_SET_S(cpu, bytes, mask);
    return true;
  });
}

TEST(ReadCpuMaskTest, GrowsToTheMachine) {
  for (const int possible : {1, 64, 1024, 1025, 4096, 8192}) {
    EXPECT_EQ(CpusOf(possible, {0, possible / 2, possible - 1}).back(), possible - 1) << possible;
  }
  std::vector<int> all;
  for (int cpu = 0; cpu < 2000; ++cpu) all.push_back(cpu);
  EXPECT_EQ(CpusOf(2048, all), all);
}

TEST(ReadCpuMaskTest, IsEmptyWhereTheKernelTellsNothing) {
  int calls = 0;
  const auto cpus = ReadCpuMask([&](size_t, cpu_set_t*) {
    ++calls;
    errno = ENOSYS;
    return false;
  });
  EXPECT_TRUE(cpus.empty());
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(ReadCpuMask([](size_t, cpu_set_t*) {
                errno = EINVAL;
                return false;
              }).empty());
}

// A folder as /sys/devices/system/cpu, of two threads a core: 0 and 4, 1 and 5, ...
class OneCpuPerCoreTest : public ::testing::Test {
 protected:
  void Write(int cpu, const std::string& file, const std::string& text) {
    const std::filesystem::path path = folder_ / absl::StrCat("cpu", cpu) / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text << "\n";
  }
  void SetUp() override {
    for (int cpu = 0; cpu < 8; ++cpu) {
      Write(cpu, "topology/thread_siblings_list", absl::StrCat(cpu % 4, ",", cpu % 4 + 4));
    }
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  const std::filesystem::path folder_ =
      std::filesystem::path(::testing::TempDir()) / absl::StrCat("cpus_", getpid());
};

TEST_F(OneCpuPerCoreTest, TakesTheFirstThreadOfEachCoreInTheMask) {
  EXPECT_EQ(OneCpuPerCore({0, 1, 2, 3, 4, 5, 6, 7}, folder_), (std::vector{0, 1, 2, 3}));
  EXPECT_EQ(OneCpuPerCore({1, 3, 4, 5, 7}, folder_), (std::vector{1, 3, 4}));
  EXPECT_EQ(OneCpuPerCore({6}, folder_), std::vector{6});
}

TEST_F(OneCpuPerCoreTest, PutsFastCoresFirst) {
  for (int cpu = 0; cpu < 8; ++cpu) Write(cpu, "cpu_capacity", cpu % 2 == 1 ? "1024" : "446");
  EXPECT_EQ(OneCpuPerCore({0, 1, 2, 3, 4, 5, 6, 7}, folder_), (std::vector{1, 3, 0, 2}));
}

TEST_F(OneCpuPerCoreTest, TakesFrequenciesWhereThereAreNoCapacities) {
  for (int cpu = 0; cpu < 8; ++cpu) {
    Write(cpu, "cpufreq/cpuinfo_max_freq", cpu % 4 == 2 ? "5100000" : "3900000");
  }
  EXPECT_EQ(OneCpuPerCore({0, 1, 2, 3, 4, 5, 6, 7}, folder_), (std::vector{2, 0, 1, 3}));
}

TEST_F(OneCpuPerCoreTest, TakesAllWhereTheSystemTellsNothing) {
  EXPECT_EQ(OneCpuPerCore({0, 1, 4}, folder_ / "none"), (std::vector{0, 1, 4}));
  EXPECT_TRUE(OneCpuPerCore({}, folder_).empty());
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
  if (PoolThreadCpus(count).front() < 0) GTEST_SKIP() << "a quota leaves less than the mask";
  const std::vector<int> bound = PoolThreadCpus(count);
  EXPECT_TRUE(std::ranges::is_permutation(bound, all));
  for (int i = 0; i < count; ++i) EXPECT_EQ(CpusWhenBound(i, count), std::vector<int>{bound[i]});
}

TEST(BindThreadTest, BindsAnotherThread) {
  const std::vector<int> all = OwnCpus();
  std::atomic<bool> bound = false;
  std::vector<int> cpus;
  std::thread other([&] {
    while (!bound) std::this_thread::yield();
    cpus = OwnCpus();
  });
  BindThread(other.native_handle(), all.back());
  BindThread(other.native_handle(), -1);
  bound = true;
  other.join();
  EXPECT_EQ(cpus, std::vector<int>{all.back()});
  EXPECT_EQ(OwnCpus(), all) << "the calling thread stays free";
}

TEST(BindPoolThreadTest, OtherPoolsAreLeftToTheScheduler) {
  const std::vector<int> all = OwnCpus();
  const int count = static_cast<int>(all.size());
  EXPECT_EQ(CpusWhenBound(0, count + 1), all);
  EXPECT_EQ(CpusWhenBound(count, count + 1), all);
  if (count > 1 && PoolThreadCpus(count - 1).front() < 0) {  // not one a core
    EXPECT_EQ(CpusWhenBound(0, count - 1), all);
  }
}

}  // namespace
}  // namespace upscaled
