#include "engine/base/cgroup.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <string>

namespace upscaled {
namespace {

class CgroupTest : public ::testing::Test {
 protected:
  ~CgroupTest() override { std::filesystem::remove_all(mount_); }

  void Write(const std::string& file, const std::string& text) {
    const std::filesystem::path path = mount_ / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text << "\n";
  }
  double Quota(const std::string& membership) const { return CgroupCpuQuota(membership, mount_); }

  const std::filesystem::path mount_ = MakeFolder();

 private:
  static std::filesystem::path MakeFolder() {
    std::string name = std::filesystem::temp_directory_path() / "cgroup-XXXXXX";
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    return name;
  }
};

TEST_F(CgroupTest, NoGroupsNoLimit) {
  EXPECT_TRUE(std::isinf(Quota("")));
  EXPECT_TRUE(std::isinf(Quota("0::/\n")));
  EXPECT_TRUE(std::isinf(Quota("nonsense\n1:2\n")));
}

TEST_F(CgroupTest, AContainersOwnGroupIsTheMount) {
  Write("cpu.max", "150000 100000");
  EXPECT_DOUBLE_EQ(Quota("0::/\n"), 1.5);
}

TEST_F(CgroupTest, MaxIsNoLimit) {
  Write("cpu.max", "max 100000");
  EXPECT_TRUE(std::isinf(Quota("0::/\n")));
}

TEST_F(CgroupTest, TheLeastOfAllGroupsThatTheProcessLiesIn) {
  Write("system.slice/cpu.max", "300000 100000");
  Write("system.slice/upscaled.service/cpu.max", "max 100000");
  EXPECT_DOUBLE_EQ(Quota("0::/system.slice/upscaled.service\n"), 3);
  Write("system.slice/upscaled.service/cpu.max", "50000 25000");
  EXPECT_DOUBLE_EQ(Quota("0::/system.slice/upscaled.service\n"), 2);
  EXPECT_DOUBLE_EQ(Quota("0::/system.slice\n"), 3);
}

TEST_F(CgroupTest, VersionOne) {
  Write("cpu/docker/abc/cpu.cfs_quota_us", "250000");
  Write("cpu/docker/abc/cpu.cfs_period_us", "100000");
  Write("cpu/cpu.cfs_quota_us", "-1");
  Write("cpu/cpu.cfs_period_us", "100000");
  EXPECT_DOUBLE_EQ(Quota("5:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n"), 2.5);
  EXPECT_TRUE(std::isinf(Quota("5:cpuset:/docker/abc\n")));
}

TEST_F(CgroupTest, NonsenseInFilesIsNoLimit) {
  for (const char* text : {"", "0 0", "-5 100000", "fast", "100000", "100000 0"}) {
    Write("cpu.max", text);
    EXPECT_TRUE(std::isinf(Quota("0::/\n"))) << text;
  }
}

TEST_F(CgroupTest, TheLeastMemoryOfAllGroupsThatTheProcessLiesIn) {
  const std::string unit = "0::/system.slice/upscaled.service\n";
  EXPECT_TRUE(std::isinf(CgroupMemoryLimit(unit, mount_)));
  Write("system.slice/memory.max", "4294967296");
  Write("system.slice/upscaled.service/memory.max", "max");
  EXPECT_EQ(CgroupMemoryLimit(unit, mount_), 4294967296.0);
  Write("system.slice/upscaled.service/memory.max", "536870912");
  EXPECT_EQ(CgroupMemoryLimit(unit, mount_), 536870912.0);
  EXPECT_EQ(CgroupMemoryLimit("0::/system.slice\n", mount_), 4294967296.0);
}

TEST_F(CgroupTest, MemoryOfVersionOne) {
  Write("memory/memory.limit_in_bytes", "9223372036854771712");
  Write("memory/docker/memory.limit_in_bytes", "1000000");
  EXPECT_EQ(CgroupMemoryLimit("5:memory:/docker/abc\n4:cpu:/other\n", mount_), 1000000);
  EXPECT_TRUE(std::isinf(CgroupMemoryLimit("5:cpu:/docker/abc\n", mount_)));
}

TEST_F(CgroupTest, Tasks) {
  Write("system.slice/upscaled.service/pids.max", "512");
  const CgroupTasks unit = CgroupTaskLimit("0::/system.slice/upscaled.service\n", mount_);
  EXPECT_EQ(unit.limit, 512);
  EXPECT_EQ(unit.group, mount_ / "system.slice/upscaled.service");
  Write("pids/docker/pids.max", "max");
  EXPECT_TRUE(std::isinf(CgroupTaskLimit("3:pids:/docker\n", mount_).limit));
  Write("pids/pids.max", "100");
  EXPECT_EQ(CgroupTaskLimit("3:pids:/docker\n", mount_).limit, 100);
}

}  // namespace
}  // namespace upscaled
