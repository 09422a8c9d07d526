#include "server/base/process_usage.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "engine/base/cgroup.h"

namespace upscaled::server {
namespace {

int64_t SoftLimit(int resource) {
  rlimit limit;
  if (getrlimit(static_cast<__rlimit_resource_t>(resource), &limit) != 0) return 0;
  return limit.rlim_cur == RLIM_INFINITY ? 0 : static_cast<int64_t>(limit.rlim_cur);
}

// 0 for infinity, and for the huge number of control groups of version 1.
int64_t ToLimit(double limit) { return limit < 0x1p60 ? static_cast<int64_t>(limit) : 0; }

// The fields of /proc/self/stat by their numbers in proc(5), from 1 on; those before the state (3)
// are empty.
class StatFields {
 public:
  explicit StatFields(const std::string& stat) {
    // The command's name, in parentheses, may hold anything.
    const size_t end = stat.rfind(')');
    if (end == std::string::npos) return;
    std::istringstream fields(stat.substr(end + 1));
    for (std::string field; fields >> field;) fields_.push_back(field);
  }
  int64_t at(size_t number) const {
    return number - 3 < fields_.size() ? std::atoll(fields_[number - 3].c_str()) : 0;
  }

 private:
  std::vector<std::string> fields_;
};

constexpr size_t kUserTicks = 14, kSystemTicks = 15, kThreads = 20, kStartTicks = 22,
                 kVirtualBytes = 23, kResidentPages = 24;

}  // namespace

struct ProcessProbe::Files {
  absl::Mutex mutex;  // the folder has one position
  DIR* const fds = opendir("/proc/self/fd");
  const int stat = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
  int group_tasks = -1;  // pids.current
  int64_t max_threads = 0;
  int64_t max_group_tasks = 0;
  int64_t max_memory_bytes = 0;

  ~Files() {
    if (group_tasks >= 0) close(group_tasks);
    if (fds != nullptr) closedir(fds);
    if (stat >= 0) close(stat);
  }

  static std::string ReadText(int fd) {
    char buffer[1024];
    const ssize_t count = pread(fd, buffer, sizeof buffer, 0);
    return {buffer, static_cast<size_t>(std::max<ssize_t>(count, 0))};
  }
  StatFields ReadStat() const { return StatFields(ReadText(stat)); }
  int64_t ReadGroupTasks() const { return std::atoll(ReadText(group_tasks).c_str()); }

  // The open descriptors, among them those of this.
  template <typename Visit>
  void ForEachFd(const Visit& visit) ABSL_LOCKS_EXCLUDED(mutex) {
    absl::MutexLock lock(&mutex);
    if (fds == nullptr) return;
    rewinddir(fds);
    while (const dirent* const entry = readdir(fds)) {
      if (entry->d_name[0] != '.') visit(std::atoi(entry->d_name));
    }
  }
};

ProcessProbe::ProcessProbe() : files_(std::make_unique<Files>()) {
  std::stringstream membership;
  membership << std::ifstream("/proc/self/cgroup").rdbuf();
  const char* const mount = "/sys/fs/cgroup";
  files_->max_memory_bytes = ToLimit(CgroupMemoryLimit(membership.str(), mount));
  const CgroupTasks tasks = CgroupTaskLimit(membership.str(), mount);
  files_->max_group_tasks = ToLimit(tasks.limit);
  files_->group_tasks = open((tasks.group / "pids.current").c_str(), O_RDONLY | O_CLOEXEC);
  double max_threads = tasks.limit;
  // The kernel does not apply it to root.
  if (const int64_t of_user = SoftLimit(RLIMIT_NPROC); of_user > 0 && geteuid() != 0) {
    max_threads = std::min(max_threads, static_cast<double>(of_user));
  }
  files_->max_threads = ToLimit(max_threads);
}

ProcessProbe::~ProcessProbe() = default;

ProcessUsage ProcessProbe::Read() const {
  const StatFields stat = files_->ReadStat();
  int64_t open_fds = 0;
  files_->ForEachFd([&open_fds](int) { ++open_fds; });
  const double ticks = static_cast<double>(stat.at(kUserTicks) + stat.at(kSystemTicks));
  return {.open_fds = open_fds,
          .max_fds = SoftLimit(RLIMIT_NOFILE),
          .threads = stat.at(kThreads),
          .max_threads = files_->max_threads,
          .group_tasks = files_->ReadGroupTasks(),
          .max_group_tasks = files_->max_group_tasks,
          .resident_bytes = stat.at(kResidentPages) * sysconf(_SC_PAGESIZE),
          .max_memory_bytes = files_->max_memory_bytes,
          .virtual_bytes = stat.at(kVirtualBytes),
          .cpu_seconds = ticks / static_cast<double>(sysconf(_SC_CLK_TCK))};
}

absl::Time ProcessProbe::start_time() const {
  timespec since_boot;
  clock_gettime(CLOCK_BOOTTIME, &since_boot);
  const double seconds = static_cast<double>(files_->ReadStat().at(kStartTicks)) /
                         static_cast<double>(sysconf(_SC_CLK_TCK));
  return absl::Now() - (absl::DurationFromTimespec(since_boot) - absl::Seconds(seconds));
}

int64_t ProcessProbe::CountConnections() const {
  int64_t connections = 0;
  files_->ForEachFd([&connections](int fd) {
    sockaddr_storage peer;
    socklen_t size = sizeof peer;
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0) return;
    if (peer.ss_family == AF_INET || peer.ss_family == AF_INET6) ++connections;
  });
  return connections;
}

}  // namespace upscaled::server
