#include "engine/base/cpu_info.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>
#include <vector>

#include "engine/base/cgroup.h"

namespace upscaled {
namespace {

double OwnCpuQuota() {
  std::ostringstream membership;
  membership << std::ifstream("/proc/self/cgroup").rdbuf();
  return CgroupCpuQuota(membership.str(), "/sys/fs/cgroup");
}

// The calling thread's CPUs; empty when there are more than a cpu_set_t holds.
std::vector<int> AffinityCpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

}  // namespace

int AvailableCpuCount() {
  const double quota = std::min<double>(OwnCpuQuota(), std::numeric_limits<int>::max());
  const int cpus = static_cast<int>(AffinityCpus().size());
  return std::max(1, std::min(cpus, static_cast<int>(std::ceil(quota))));
}

void BindPoolThread(int index, int count) {
  const std::vector<int> cpus = AffinityCpus();
  if (count != static_cast<int>(cpus.size()) || count != AvailableCpuCount()) return;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cpus[index], &one);
  sched_setaffinity(0, sizeof(one), &one);  // a hint: where it is refused all works as well
}

}  // namespace upscaled
