#include "engine/base/cpu_info.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <sstream>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
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

size_t CoreCacheBytes() {
  const long bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
  return bytes > 0 ? static_cast<size_t>(bytes) : size_t{1} << 20;
}

std::string CpuModelName() {
  // "model name\t: Intel(R) Xeon(R) Processor", a line a field, the first CPU first. x86 has the
  // first three numbers, ARM the others.
  std::map<std::string, std::string> fields;
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line) && !line.empty();) {
    const size_t colon = line.find(": ");
    if (colon == std::string::npos) continue;
    fields[line.substr(0, line.find_last_not_of("\t ", colon - 1) + 1)] = line.substr(colon + 2);
  }
  std::vector<std::string> numbers;
  for (const char* name :
       {"cpu family", "model", "stepping", "CPU implementer", "CPU part", "CPU variant"}) {
    const auto field = fields.find(name);
    if (field != fields.end()) numbers.push_back(absl::StrCat(name, " ", field->second));
  }
  const std::string model = fields.contains("model name") ? fields["model name"] : "CPU";
  return absl::StrCat(model, " (", absl::StrJoin(numbers, ", "), ")");
}

std::vector<int> PoolThreadCpus(int count) {
  std::vector<int> cpus = AffinityCpus();
  if (count != static_cast<int>(cpus.size()) || count != AvailableCpuCount())
    cpus.assign(count, -1);
  return cpus;
}

void BindThread(int cpu) {
  if (cpu < 0) return;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  sched_setaffinity(0, sizeof(one), &one);  // a hint: where it is refused all works as well
}

void BindPoolThread(int index, int count) { BindThread(PoolThreadCpus(count)[index]); }

}  // namespace upscaled
