#include "engine/base/cpu_info.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/cgroup.h"

namespace upscaled {
namespace {

struct FreeMask {
  void operator()(cpu_set_t* mask) const { CPU_FREE(mask); }
};
using CpuMask = std::unique_ptr<cpu_set_t, FreeMask>;

double OwnCpuQuota() {
  std::ostringstream membership;
  membership << std::ifstream("/proc/self/cgroup").rdbuf();
  return CgroupCpuQuota(membership.str(), "/sys/fs/cgroup");
}

// The calling thread's CPUs.
std::vector<int> AffinityCpus() {
  return ReadCpuMask(
      [](size_t bytes, cpu_set_t* mask) { return sched_getaffinity(0, bytes, mask) == 0; });
}

std::vector<int> AffinityCores() {
  return OneCpuPerCore(AffinityCpus(), "/sys/devices/system/cpu");
}

// The first line of a file, or "".
std::string FirstLine(const std::filesystem::path& path) {
  std::string line;
  std::ifstream file(path);
  std::getline(file, line);
  return line;
}

// Speed of a CPU's core relative to the machine's others.
int64_t CapacityOf(const std::filesystem::path& cpu_folder) {
  for (const char* file : {"cpu_capacity", "cpufreq/cpuinfo_max_freq"}) {
    int64_t capacity = 0;
    if (absl::SimpleAtoi(FirstLine(cpu_folder / file), &capacity)) return capacity;
  }
  return 0;
}

int QuotaCpus(size_t cpus) {
  const double quota = std::min<double>(OwnCpuQuota(), std::numeric_limits<int>::max());
  return std::max(1, std::min(static_cast<int>(cpus), static_cast<int>(std::ceil(quota))));
}

}  // namespace

std::vector<int> OneCpuPerCore(const std::vector<int>& cpus, const std::filesystem::path& folder) {
  struct Core {
    int cpu;
    int64_t capacity;
  };
  std::vector<Core> cores;
  std::set<std::string> seen;
  for (const int cpu : cpus) {
    const std::filesystem::path of = folder / absl::StrCat("cpu", cpu);
    const std::string siblings = FirstLine(of / "topology/thread_siblings_list");
    if (siblings.empty() || seen.insert(siblings).second) cores.push_back({cpu, CapacityOf(of)});
  }
  std::ranges::stable_sort(cores, std::ranges::greater(), &Core::capacity);
  std::vector<int> first;
  for (const Core& core : cores) first.push_back(core.cpu);
  return first;
}

std::vector<int> ReadCpuMask(const std::function<bool(size_t bytes, cpu_set_t* mask)>& read) {
  constexpr int kMaxCpus = 1 << 20;
  for (int capacity = CPU_SETSIZE; capacity <= kMaxCpus; capacity *= 2) {
    const size_t bytes = CPU_ALLOC_SIZE(capacity);
    const CpuMask mask(CPU_ALLOC(capacity));
    if (mask == nullptr) break;
    CPU_ZERO_S(bytes, mask.get());
    if (!read(bytes, mask.get())) {
      if (errno == EINVAL) continue;  // the kernel knows of more CPUs
      break;
    }
    std::vector<int> cpus;
    for (int cpu = 0; cpu < capacity; ++cpu) {
      if (CPU_ISSET_S(cpu, bytes, mask.get())) cpus.push_back(cpu);
    }
    return cpus;
  }
  return {};
}

int AvailableCpuCount() { return QuotaCpus(AffinityCores().size()); }

size_t CoreCacheBytes() {
  const long bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
  return bytes > 0 ? static_cast<size_t>(bytes) : size_t{1} << 20;
}

std::string CpuModelName() {
  // "model name\t: Intel(R) Xeon(R) Processor", one line per field, the first CPU first. x86 has
  // the first three numbers, ARM the others.
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
  for (std::vector<int> cpus : {AffinityCores(), AffinityCpus()}) {
    if (count == static_cast<int>(cpus.size()) && count == QuotaCpus(cpus.size())) return cpus;
  }
  return std::vector<int>(count, -1);
}

void BindThread(int cpu) { BindThread(pthread_self(), cpu); }

void BindThread(pthread_t thread, int cpu) {
  if (cpu < 0) return;
  const size_t bytes = CPU_ALLOC_SIZE(cpu + 1);
  const CpuMask one(CPU_ALLOC(cpu + 1));
  if (one == nullptr) return;
  CPU_ZERO_S(bytes, one.get());
  CPU_SET_S(cpu, bytes, one.get());
  // A hint: if it is refused all works as well.
  pthread_setaffinity_np(thread, bytes, one.get());
}

void BindPoolThread(int index, int count) { BindThread(PoolThreadCpus(count)[index]); }

}  // namespace upscaled
