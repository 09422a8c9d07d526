// Limits of Linux control groups for a process.
#pragma once

#include <filesystem>
#include <string_view>

namespace upscaled {

// In all of them, `membership` is the text of /proc/self/cgroup and `mount` is /sys/fs/cgroup;
// versions 1 and 2 are understood. Inside a container the process's own group is the mount itself.
// The result is the minimum over the process's group and the groups around it; infinity if there is
// no limit.

// CPUs by the quotas.
double CgroupCpuQuota(std::string_view membership, const std::filesystem::path& mount);
// Bytes: memory.max, as systemd's MemoryMax= sets it, or memory.limit_in_bytes.
double CgroupMemoryLimit(std::string_view membership, const std::filesystem::path& mount);
// Tasks: the threads of all processes: pids.max, as systemd's TasksMax= sets it.
struct CgroupTasks {
  double limit = 0;
  std::filesystem::path group;  // that has it, and counts its tasks in pids.current
};
CgroupTasks CgroupTaskLimit(std::string_view membership, const std::filesystem::path& mount);

}  // namespace upscaled
