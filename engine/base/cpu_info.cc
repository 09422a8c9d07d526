#include "engine/base/cpu_info.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <string>

namespace upscaled {
namespace {

// CPUs that the cgroup quota amounts to; "no limit" is a very large number. Inside a container the
// process's own group is mounted at the root of the hierarchy.
double CgroupCpuQuota() {
  constexpr double kNoLimit = std::numeric_limits<double>::max();
  if (std::ifstream v2("/sys/fs/cgroup/cpu.max"); v2) {
    std::string quota;
    double period_us = 0;
    if (v2 >> quota >> period_us && quota != "max" && period_us > 0)
      return std::strtod(quota.c_str(), nullptr) / period_us;
    return kNoLimit;
  }
  double quota_us = 0, period_us = 0;
  std::ifstream("/sys/fs/cgroup/cpu/cpu.cfs_quota_us") >> quota_us;
  std::ifstream("/sys/fs/cgroup/cpu/cpu.cfs_period_us") >> period_us;
  return quota_us > 0 && period_us > 0 ? quota_us / period_us : kNoLimit;
}

int AffinityCpuCount() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
}

}  // namespace

int AvailableCpuCount() {
  const double quota = std::min<double>(CgroupCpuQuota(), std::numeric_limits<int>::max());
  return std::max(1, std::min(AffinityCpuCount(), static_cast<int>(std::ceil(quota))));
}

}  // namespace upscaled
