// Limits that Linux control groups set to a process.
#pragma once

#include <filesystem>
#include <string_view>

namespace upscaled {

// CPUs that the quotas of a process's group, and of those that it lies in, amount to; infinity
// where there is none. `membership` is what /proc/self/cgroup says, `mount` is /sys/fs/cgroup;
// versions 1 and 2 are understood. Inside a container the process's own group is the mount itself.
double CgroupCpuQuota(std::string_view membership, const std::filesystem::path& mount);

}  // namespace upscaled
